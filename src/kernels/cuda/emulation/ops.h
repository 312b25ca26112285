// The kernels of cuda/ compiled for the CPU, for tests only.
#pragma once

#include "kernels/api/ops.h"

namespace quire {

const OpTable& emulated_cuda_ops();

}  // namespace quire
