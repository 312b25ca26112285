#include "kernels/cuda_rank_ops.h"

#include "kernels/cuda/test/test_rank_ops.h"

namespace quire::gpu_test {

const RankOps& test_rank_ops() { return cuda_rank_ops(); }

}  // namespace quire::gpu_test
