// How an adapter is loaded.
#pragma once

#include <cstdint>
#include <limits>

#include "base/dtype.h"
#include "device/stream.h"
#include "kernels/api/linear.h"
#include "kernels/api/lora.h"
#include "weights/checkpoint.h"

namespace quire {

struct LoraOptions {
  DType dtype = DType::kBF16;               // that the updates and whole modules are kept in
  LoraLayout layout = LoraLayout::kPanels;  // of the updates
  ComputeType compute = ComputeType::kF32;  // of a whole head
  // Rows of q and k lie in pairs, where the adapter's lie in halves (GGUF files of Llama's kin).
  bool pairs_rows = false;
  Isa isa = Isa::kPortable;  // that the model's weights are packed for
  // A stage of a pipeline has these of num_layers layers. What changes another layer is that
  // stage's to read, and to refuse.
  RowRange own_layers = {};
  int64_t num_layers = 0;                                   // 0: all layers are here
  int64_t max_bytes = std::numeric_limits<int64_t>::max();  // that the adapter may take
};

}  // namespace quire
