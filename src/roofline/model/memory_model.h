// estimate_memory() says how many KV blocks fit beside the weights.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"

namespace quire {

// A KvBudget is what a server's memory setting is a share of.
enum class KvBudget : uint8_t {
  kAll,     // the device: weights, activations and KV share it (vLLM, Quire)
  kStatic,  // the device, for weights and KV alone; activations take what is beyond (SGLang)
  kFree,    // what is free beside weights and activations (TensorRT-LLM)
};

// ServerMemory is what somebody's server takes beside weights and KV. Servers that profile a step
// reserve the larger of two peaks: in the widest layer, and while they sample.
struct ServerMemory {
  KvBudget budget = KvBudget::kAll;
  double context_bytes = 0;    // libraries and kernels' code, as far as the setting counts them
  double parallel_bytes = 0;   // more of it with tp > 1
  double bytes_per_logit = 0;  // of max_num_seqs rows over the vocabulary
};

struct MemoryOptions {
  int32_t block_size = 16;                // tokens
  double utilisation = 0;                 // of device memory; 0: the hardware's
  int32_t max_num_batched_tokens = 8192;  // sizes the activations
  int32_t max_num_seqs = 256;             // sizes the logits
  std::optional<ServerMemory> server;     // none: Quire's own plan
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
