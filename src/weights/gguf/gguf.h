// A GgufFile is GGUF, little-endian: metadata by key, tensors by name. It is written against the
// format description of the ggml project; dimensions are turned around so that shapes read
// outermost first like everywhere in Quire.
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

// The file is parsed and borrows the bytes that it was parsed from. It is immutable; any thread may
// use it.
class GgufFile {
 public:
  // `file_name` is for messages. kUnimplemented: big-endian, or one part of a split model.
  // kDataLoss, one line, for anything that does not fit: magic, counts, lengths, types, names,
  // alignment, offsets, overlaps.
  static Result<GgufFile> parse(std::string_view file_name, std::span<const std::byte> file);

  uint32_t version() const { return version_; }
  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;  // nullptr when absent

  // Tensors are sorted by name. Types for which Quire has no element type carry their ggml name and
  // their bytes.
  const std::vector<RawTensor>& tensors() const { return tensors_; }

 private:
  static Result<GgufFile> parse_all(std::string_view file_name, std::span<const std::byte> bytes);

  uint32_t version_ = 0;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<RawTensor> tensors_;
};

}  // namespace quire
