// The feed-forward block of a mixture of experts: every token goes through the k experts that
// route_tokens() chose for it, and their outputs are summed in the order of the choice.
//
//   const int64_t bytes = experts_workspace_bytes(stream, {.experts = experts, …});
//   route_tokens(stream, {.logits = logits, …, .expert_ids = ids, .expert_weights = weights});
//   run_experts(stream, {.x = x, .experts = experts, .expert_ids = ids, …, .out = out});
//
// Tokens of one expert are multiplied together, so its weights are read once per call. A token's
// result does not depend on other tokens (law L4), because every product reduces a row in an order
// of its own.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/activation.h"
#include "kernels/api/linear.h"
#include "kernels/api/lora.h"

namespace quire {

// The weights of one expert, of any types, quantized or not. E is the hidden size, I the width of
// the expert.
struct ExpertWeights {
  const PackedWeight* gate = nullptr;  // [I, E]; null: h = activation(up)
  const PackedWeight* up = nullptr;    // [I, E]
  const PackedWeight* down = nullptr;  // [E, I]
  const float* gate_bias = nullptr;    // [I] or null
  const float* up_bias = nullptr;      // [I] or null
  const float* down_bias = nullptr;    // [E] or null: added before the router's weight multiplies
};

// h = activation(gate) * up. With a clamp (gpt-oss) the gate is at most `limit`, up is in
// [-limit, limit], and h = activation(gate) * (up + 1).
struct ExpertActivation {
  Activation activation = Activation::kSilu;
  bool has_clamp = false;
  float limit = 0.0f;
};

// For ranks that compute each expert together: a rank holds some outputs of every matrix. Its
// outputs of gate and up are columns of h, the experts' inside; its outputs of down are columns of
// `out`.
struct ExpertsExchange {
  float* inside = nullptr;    // [T * k, I]: h, of which each rank fills its columns; on a GPU bf16
  int64_t inside_stride = 0;  // floats between rows
  int64_t first_inside = 0;   // the first of this rank's columns
  int64_t out_stride = 0;     // floats between rows of `out`, which is [T, this rank's columns]
  // run_experts() calls it once, between the two products. It returns when `inside` has the columns
  // of all ranks.
  void (*gather)(void* context) = nullptr;
  void* context = nullptr;
};

// For ranks that each hold some of the experts, whole: this rank holds experts [first, end), and
// the weights of all others are null.
struct ExpertsSpread {
  int32_t first = 0;
  int32_t end = 0;
  // [T * k, E], the outputs of all ranks' experts. On a CPU the rows are sorted by expert; on a GPU
  // they are in the order of expert_ids.
  float* outputs = nullptr;
  // This rank sums these columns of `out` and leaves the other columns as they are.
  int64_t first_column = 0;
  int64_t end_column = 0;
  // run_experts() calls it once, before the sums. It returns when `outputs` has the rows of all
  // ranks, at least in the columns above. Expert i has the rows from first_row[i] to
  // first_row[i + 1], without the latter; on a GPU the span is empty.
  void (*gather)(void* context, std::span<const int32_t> first_row) = nullptr;
  void* context = nullptr;
};

// The low-rank updates that an adapter adds to the products of one expert (api/lora.h); null adds
// nothing. Each part covers all outputs of its matrix that this rank holds, and has no base_gain.
struct ExpertUpdate {
  const LoraPart* gate = nullptr;
  const LoraPart* up = nullptr;
  const LoraPart* down = nullptr;
};

// The adapters of a call's tokens. The outputs of tokens without an adapter keep their bits.
struct ExpertUpdates {
  const int32_t* adapter_of = nullptr;  // [T]: index in `adapters`; -1: none
  std::span<const std::span<const ExpertUpdate>> adapters = {};  // [X] per adapter
  DType dtype = DType::kBF16;                                    // as LoraParams::dtype
  int64_t max_rank = 0;                                          // the largest of any part
  void* workspace = nullptr;                                     // expert_updates_bytes() bytes
};
// Returns the bytes of ExpertUpdates::workspace for up to `num_pairs` pairs of a token and an
// expert that it was routed to, and a layer of `num_experts` experts.
int64_t expert_updates_bytes(int64_t num_pairs, int64_t num_experts, int64_t max_rank);

// out[t] = (accumulate ? out[t] : 0) + sum_j expert_weights[t, j] * expert(expert_ids[t, j], x[t]).
struct RunExpertsParams {
  ConstActivations x = nullptr;                 // [T, E]
  std::span<const ExpertWeights> experts = {};  // [X], all of one E and one I
  const int32_t* expert_ids = nullptr;          // [T, k], each in [0, X)
  const float* expert_weights = nullptr;        // [T, k]
  int32_t experts_per_token = 0;                // k
  ExpertActivation activation = {};
  Activations out = nullptr;  // [T, E], not x
  bool accumulate = false;
  int64_t num_tokens = 0;     // T
  void* workspace = nullptr;  // experts_workspace_bytes() bytes
  // At most one of the two is not null. Both are null: this call holds all experts, whole.
  const ExpertsExchange* exchange = nullptr;
  const ExpertsSpread* spread = nullptr;
  const ExpertUpdates* updates = nullptr;  // CPU only; null: no token has an adapter
};
void run_experts(Stream& stream, const RunExpertsParams& params);

// Returns the bytes of RunExpertsParams::workspace for up to `max_tokens` tokens.
int64_t experts_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                std::span<const ExpertWeights> experts, int32_t experts_per_token);

// Returns whether the stream's backend has these ops.
bool supports_experts(const Stream& stream);

}  // namespace quire
