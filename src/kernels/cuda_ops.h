// The table of CUDA kernels (cuda/; where Quire was built without CUDA, no_cuda/).
#pragma once

#include "kernels/api/ops.h"

namespace quire {

// In a build without CUDA no stream can name it, because no device opens.
const OpTable& cuda_ops();

}  // namespace quire
