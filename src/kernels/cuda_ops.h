// The table of CUDA kernels, which is in cuda/; builds without CUDA have an empty one in no_cuda/.
#pragma once

#include "kernels/api/ops.h"

namespace quire {

// In a build without CUDA no stream refers to it, because no device can be opened.
const OpTable& cuda_ops();

}  // namespace quire
