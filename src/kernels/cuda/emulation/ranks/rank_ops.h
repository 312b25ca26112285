// The ops that GPUs do together, compiled for the CPU, for tests only.
#pragma once

#include "kernels/api/ranks/rank_ops.h"

namespace quire {

const RankOps& emulated_rank_ops();

}  // namespace quire
