#include "kernels/cuda_rank_ops.h"

#include "kernels/cuda/ranks/rank_ops.h"

namespace quire {

const RankOps& cuda_rank_ops() { return cuda::kRankOps; }

}  // namespace quire
