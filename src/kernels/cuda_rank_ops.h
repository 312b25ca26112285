// What CUDA GPUs do together (cuda/; where Quire was built without CUDA, no_cuda/).
#pragma once

#include "kernels/api/ranks/rank_ops.h"

namespace quire {

const RankOps& cuda_rank_ops();

}  // namespace quire
