// GGUF, versions 2 and 3, little-endian: metadata by key, tensors by name. Written against the
// format description of the ggml project; dimensions are turned around so that shapes read
// outermost first like everywhere in Quire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "weights/raw_tensor.h"

namespace quire {

// One metadata value. Integers of every width are int64 or, above its range, uint64; floats are
// double. Strings borrow the file. Arrays are flat vectors of one kind; arrays of arrays nest.
struct GgufValue {
  using Array = std::vector<GgufValue>;
  std::variant<bool, int64_t, uint64_t, double, std::string_view, std::vector<uint8_t> /* bools */,
               std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
               std::vector<std::string_view>, Array>
      value;

  // Each is empty when the value has another kind; numbers convert where nothing is lost (an
  // integer reads as a float, a uint64 as an int64 if it fits).
  std::optional<bool> as_bool() const;
  std::optional<int64_t> as_int() const;
  std::optional<double> as_float() const;
  std::optional<std::string_view> as_string() const;
  std::optional<std::span<const std::string_view>> as_strings() const;
  std::optional<std::vector<int64_t>> as_ints() const;
  std::optional<std::vector<double>> as_floats() const;
};

// A parsed file; borrows the bytes it was parsed from. Immutable, any thread.
class GgufFile {
 public:
  // `file_name` is for messages. kUnimplemented: version 1, big-endian, one part of a split model.
  // kDataLoss, one line, for anything that does not fit: magic, counts, lengths, types, names,
  // alignment, offsets, overlaps.
  static Result<GgufFile> parse(std::string_view file_name, std::span<const std::byte> file);

  uint32_t version() const { return version_; }
  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;  // nullptr when absent

  // Sorted by name. Types that Quire has no element type for carry their ggml name and their bytes.
  const std::vector<RawTensor>& tensors() const { return tensors_; }

 private:
  static Result<GgufFile> parse_all(std::string_view file_name, std::span<const std::byte> bytes);

  uint32_t version_ = 0;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<RawTensor> tensors_;
};

}  // namespace quire
