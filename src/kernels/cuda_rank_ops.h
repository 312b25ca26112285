// The ops that CUDA GPUs run together, which are in cuda/; builds without CUDA have an empty table
// in no_cuda/.
#pragma once

#include "kernels/api/ranks/rank_ops.h"

namespace quire {

const RankOps& cuda_rank_ops();

}  // namespace quire
