// estimate_memory() computes how many KV blocks fit beside the weights.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"

namespace quire {

// What a server's memory setting is a share of.
enum class KvBudget : uint8_t {
  kAll,     // the device: weights, activations and KV together (vLLM, Quire)
  kStatic,  // the device, only for weights and KV; activations use the rest (SGLang)
  kFree,    // the memory that is free beside weights and activations (TensorRT-LLM)
};

// The memory of another server beside weights and KV. Servers that profile a step reserve the
// larger of two peaks: in the widest layer, and during sampling.
struct ServerMemory {
  KvBudget budget = KvBudget::kAll;
  double context_bytes = 0;    // libraries and kernels' code, as far as the setting counts them
  double parallel_bytes = 0;   // additional context_bytes if tp > 1
  double bytes_per_logit = 0;  // for max_num_seqs rows over the vocabulary
};

struct MemoryOptions {
  int32_t block_size = 16;                // tokens
  double utilisation = 0;                 // of device memory; 0: the hardware's default
  int32_t max_num_batched_tokens = 8192;  // sizes the activations
  int32_t max_num_seqs = 256;             // sizes the logits
  std::optional<ServerMemory> server;     // empty: Quire's own plan
};

// The memory of one device.
struct MemoryEstimate {
  double weight_bytes = 0;
  double activation_bytes = 0;
  double other_bytes = 0;               // context, graphs, communication
  double kv_bytes = 0;                  // the rest
  double kv_bytes_per_token = 0;        // on this device
  double state_bytes_per_sequence = 0;  // on this device, for layers that keep states
  int64_t num_blocks = 0;  // of block_size tokens each, if states take no memory; 0: no KV
  int64_t num_tokens = 0;  // tokens that the cache holds
};

// kResourceExhausted: the weights do not fit; the message says by how much.
Result<MemoryEstimate> estimate_memory(const ModelShape& model, const Hardware& hardware,
                                       const Parallelism& parallelism,
                                       const MemoryOptions& options = {});

}  // namespace quire
