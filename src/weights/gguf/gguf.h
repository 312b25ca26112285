// GGUF, versions 2 and 3, little-endian: metadata by key, tensors by name. Written against the
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

// A parsed file; borrows the bytes it was parsed from. Immutable, any thread.
class GgufFile {
 public:
  // `file_name` is for messages. kUnimplemented: big-endian, one part of a split model.
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
