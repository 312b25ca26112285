// The ops that several GPUs run together. OpTable (kernels/api/ops.h) has the ops of a single GPU.
#pragma once

#include "kernels/api/ranks/gather_columns.h"
#include "kernels/api/ranks/hand_over.h"

namespace quire {

struct RankOps {
  void (*gather_columns)(Stream&, const GatherColumnsParams&);
  void (*send_rows)(Stream&, const SendRowsParams&);
  void (*receive_rows)(Stream&, const ReceiveRowsParams&);
};

}  // namespace quire
