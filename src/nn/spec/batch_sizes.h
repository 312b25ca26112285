// The sizes that determine the buffers of a part of the decoder.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace quire {

struct BatchSizes {
  int64_t max_tokens = 0;
  int64_t width = 0;  // E
  float norm_eps = 1e-6f;
  DType activation_type = DType::kF32;  // of products' inputs
};

}  // namespace quire
