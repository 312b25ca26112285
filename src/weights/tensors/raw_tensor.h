// A RawTensor is one tensor as a checkpoint file stores it: borrowed bytes, not converted, and what
// the file says about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace quire {

struct RawTensor {
  std::string name;
  std::string_view type_name;  // as the format spells it: "BF16", "F8_E4M3", "Q4_K"; static storage
  std::optional<DType> dtype;  // empty if Quire has no element type for it
  std::vector<int64_t> shape;  // row-major, outermost dimension first; empty for a scalar
  // The size is checked against the type and shape. The data need not be aligned to the type.
  std::span<const std::byte> data;

  // Returns the product of `shape`, which was checked not to overflow when the file was read.
  int64_t num_elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
};

}  // namespace quire
