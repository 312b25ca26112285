// Options for loading an adapter.
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
  DType dtype = DType::kBF16;               // of the stored updates and whole modules
  LoraLayout layout = LoraLayout::kPanels;  // of the updates
  ComputeType compute = ComputeType::kF32;  // of products with a replaced head
  // The model stores rows of q and k in pairs and the adapter in halves (GGUF files of Llama and
  // similar families).
  bool pairs_rows = false;
  Isa isa = Isa::kPortable;  // that the weights of the model are packed for
  // The layers, of num_layers, that this stage of a pipeline has. An adapter's changes to other
  // layers are read and checked by the stages that have these.
  RowRange own_layers = {};
  int64_t num_layers = 0;                                   // 0: all layers are here
  int64_t max_bytes = std::numeric_limits<int64_t>::max();  // of the loaded adapter
};

}  // namespace quire
