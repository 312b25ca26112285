// A GgmlType is an element type of ggml, by the number that GGUF files use for it: how many
// elements a block holds and how many bytes it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace quire {

struct GgmlType {
  uint32_t id;
  std::string_view name;
  // This many consecutive elements of a row share one block; 0 for a type that is no longer in use.
  uint32_t block_elements;
  uint32_t block_bytes;
  std::optional<DType> dtype;
};

// Returns nullptr for a number that ggml never assigned.
const GgmlType* find_ggml_type(uint32_t id);

}  // namespace quire
