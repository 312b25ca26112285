// RankOps on GPUs. No CUDA header is needed to call them.
#pragma once

#include "kernels/api/ranks/gather_columns.h"

namespace quire::cuda {

void gather_columns(Stream& stream, const GatherColumnsParams& params);

inline constexpr RankOps kRankOps{.gather_columns = gather_columns};

}  // namespace quire::cuda
