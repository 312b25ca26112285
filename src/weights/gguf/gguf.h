// A GgufFile reads a little-endian GGUF file: metadata by key, tensors by name. It follows the
// format description of the ggml project, but dimensions are reversed, so that shapes read
// outermost first as everywhere in Quire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/gguf/gguf_value.h"
#include "weights/tensors/raw_tensor.h"

namespace quire {

// A GgufFile is a parsed file that borrows the bytes it was parsed from. It is immutable; any
// thread may use it.
class GgufFile {
 public:
  // Parses a file; `file_name` is for messages. Returns kUnimplemented for a big-endian file or one
  // part of a split model; kDataLoss, with a message of one line, if magic, counts, lengths, types,
  // names, alignment or offsets do not fit, or if tensors overlap.
  static Result<GgufFile> parse(std::string_view file_name, std::span<const std::byte> file);

  uint32_t version() const { return version_; }
  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;  // nullptr when absent

  // Returns all tensors, sorted by name. A tensor whose type Quire has no element type for has its
  // ggml type name and its bytes.
  const std::vector<RawTensor>& tensors() const { return tensors_; }

 private:
  static Result<GgufFile> parse_all(std::string_view file_name, std::span<const std::byte> bytes);

  uint32_t version_ = 0;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<RawTensor> tensors_;
};

}  // namespace quire
