// The safetensors format is 8 bytes of little-endian header length, a JSON header, then the bytes
// of all tensors.
//   {"__metadata__": {"format": "pt"},
//    "w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}
// Offsets count from the end of the header. The reader is written against the format description of
// the safetensors project.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/tensors/raw_tensor.h"

namespace quire {

// A SafetensorsIndex says which shard holds each tensor, as model.safetensors.index.json lists
// them.
struct SafetensorsIndex {
  std::map<std::string, std::string> shard_of;  // tensor name -> file name
};

// Returns all tensors of one file, sorted by name; their data borrows `file`. `file_name` is for
// messages. Returns kDataLoss, with a message of one line, for a wrong header length, malformed
// JSON, an unknown dtype, a shape that does not match its bytes, tensors that overlap, leave a hole
// or reach beyond the file, or a name that occurs twice.
Result<std::vector<RawTensor>> parse_safetensors(std::string_view file_name,
                                                 std::span<const std::byte> file);

// Reads model.safetensors.index.json. Shard names must be plain file names. Returns kDataLoss if
// the text is malformed.
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text);

}  // namespace quire
