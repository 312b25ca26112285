// A GgufCursor reads the bytes of a GGUF file in order and never reads beyond them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/result.h"

namespace quire {

// The cursor only moves forward; every read is checked against the bytes that remain.
class GgufCursor {
 public:
  GgufCursor(std::string_view file_name, std::span<const std::byte> file)
      : file_name_(file_name), file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_.size() - position_; }
  std::string_view file_name() const { return file_name_; }

  template <typename T>
  Result<T> number(std::string_view what) {
    static_assert(std::endian::native == std::endian::little);
    if (remaining() < sizeof(T)) return truncated(what, sizeof(T));
    T out;
    std::memcpy(&out, file_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return out;
  }

  // Version 1 of the format writes counts, lengths and dimensions in 32 bits, later versions in 64.
  void use_32_bit_sizes() { has_32_bit_sizes_ = true; }
  uint64_t size_bytes() const { return has_32_bit_sizes_ ? 4 : 8; }

  // Reads a count, a length or a dimension, as wide as the file's version writes them.
  Result<uint64_t> size(std::string_view what) {
    if (!has_32_bit_sizes_) return number<uint64_t>(what);
    QUIRE_ASSIGN_OR_RETURN(const uint32_t narrow, number<uint32_t>(what));
    return uint64_t{narrow};
  }

  Result<std::string_view> string(std::string_view what, uint64_t max_bytes) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t length, size(what));
    if (length > max_bytes) {
      return data_loss("{}: {} has a length of {}, expected at most {}", file_name_, what, length,
                       max_bytes);
    }
    if (length > remaining()) return truncated(what, length);
    const std::string_view out(reinterpret_cast<const char*>(file_.data()) + position_, length);
    position_ += length;
    return out;
  }

  Status truncated(std::string_view what, uint64_t needed) const {
    return data_loss("{}: truncated at byte {}: {} needs {} bytes, {} remain", file_name_,
                     position_, what, needed, remaining());
  }

 private:
  std::string_view file_name_;
  std::span<const std::byte> file_;
  uint64_t position_ = 0;
  bool has_32_bit_sizes_ = false;
};

}  // namespace quire
