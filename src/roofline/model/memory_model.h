// estimate_memory() says how many KV blocks fit beside the weights.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"

namespace quire {

struct MemoryOptions {
  int32_t block_size = 16;                // tokens
  double utilisation = 0;                 // of device memory; 0: the hardware's
  int32_t max_num_batched_tokens = 8192;  // sizes the activations
};

// The estimate is per device.
struct MemoryEstimate {
  double weight_bytes = 0;
  double activation_bytes = 0;
  double other_bytes = 0;               // context, graphs, communication
  double kv_bytes = 0;                  // what is left
  double kv_bytes_per_token = 0;        // on this device
  double state_bytes_per_sequence = 0;  // on this device, of layers that keep states
  int64_t num_blocks = 0;  // of block_size tokens each, where no state takes memory; 0: no KV
  int64_t num_tokens = 0;  // that the cache holds
};

// kResourceExhausted: the weights do not fit, and the message says by how much.
Result<MemoryEstimate> estimate_memory(const ModelShape& model, const Hardware& hardware,
                                       const Parallelism& parallelism,
                                       const MemoryOptions& options = {});

}  // namespace quire
