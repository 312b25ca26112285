// The RankOps for GPUs. No CUDA header is needed to call them.
#pragma once

#include "kernels/api/ranks/rank_ops.h"

namespace quire::cuda {

void gather_columns(Stream& stream, const GatherColumnsParams& params);
void send_rows(Stream& stream, const SendRowsParams& params);
void receive_rows(Stream& stream, const ReceiveRowsParams& params);

inline constexpr RankOps kRankOps{
    .gather_columns = gather_columns, .send_rows = send_rows, .receive_rows = receive_rows};

}  // namespace quire::cuda
