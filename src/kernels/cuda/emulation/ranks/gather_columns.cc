// The GPU's source, compiled for the CPU.
#include "kernels/cuda/ranks/gather_columns.cu"  // NOLINT

#include "kernels/cuda/emulation/ranks/rank_ops.h"

namespace quire {

const RankOps& emulated_rank_ops() { return cuda::kRankOps; }

}  // namespace quire
