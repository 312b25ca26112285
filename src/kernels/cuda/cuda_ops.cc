#include "kernels/cuda_ops.h"

#include "kernels/cuda/op_table.h"

namespace quire {

const OpTable& cuda_ops() { return cuda::kOpTable; }

}  // namespace quire
