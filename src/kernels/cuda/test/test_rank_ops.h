// The rank ops for the devices of test_device.h.
#pragma once

#include "kernels/api/ranks/rank_ops.h"

namespace quire::gpu_test {

const RankOps& test_rank_ops();

}  // namespace quire::gpu_test
