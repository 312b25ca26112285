// The feed-forward block of a mixture of experts: every token goes through the k experts that
// route_tokens() chose for it, and their outputs are summed in the order of the choice.
//
//   const int64_t bytes = experts_workspace_bytes(stream, {.experts = experts, …});
//   route_tokens(stream, {.logits = logits, …, .expert_ids = ids, .expert_weights = weights});
//   run_experts(stream, {.x = x, .experts = experts, .expert_ids = ids, …, .out = out});
//
// Tokens of one expert are multiplied together, so its weights are read once per call. A token's
// result does not depend on its neighbours (law L4): every product reduces a row in its own order,
// whatever other rows are there.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/activation.h"
#include "kernels/api/linear.h"
#include "kernels/api/lora.h"

namespace quire {

// The weights of one expert, of any types, quantized or not. E hidden, I the expert's width.
struct ExpertWeights {
  const PackedWeight* gate = nullptr;  // [I, E]; null: h = activation(up)
  const PackedWeight* up = nullptr;    // [I, E]
  const PackedWeight* down = nullptr;  // [E, I]
  const float* gate_bias = nullptr;    // [I] or null
  const float* up_bias = nullptr;      // [I] or null
  const float* down_bias = nullptr;    // [E] or null: added before the router's weight
};

// h = activation(gate) * up. With a clamp (gpt-oss) the gate is at most `limit`, up lies in
// [-limit, limit], and h = activation(gate) * (up + 1).
struct ExpertActivation {
  Activation activation = Activation::kSilu;
  bool has_clamp = false;
  float limit = 0.0f;
};

// When several compute the experts together, each has some outputs of every matrix: those of gate and
// up are columns of the experts' inside, h, those of down columns of `out`.
struct ExpertsExchange {
  float* inside = nullptr;    // [T * k, I] of all, which each fills in part; on a GPU bf16
  int64_t inside_stride = 0;  // floats between rows
  int64_t first_inside = 0;   // the first of one's own columns
  int64_t out_stride = 0;     // floats between rows of `out`, which is [T, own columns]
  // It is called once, between the two products, and returns when the columns of all ranks are
  // there.
  void (*gather)(void* context) = nullptr;
  void* context = nullptr;
};

// When several have whole experts each: this one's are [first, end), and the weights of the others
// are not here (null).
struct ExpertsSpread {
  int32_t first = 0;
  int32_t end = 0;
  // [T * k, E] of all: the rows of an expert behind those of the one before, on a GPU those of
  // expert_ids in their order.
  float* outputs = nullptr;
  // These columns of `out` are summed here. The others are left as they are.
  int64_t first_column = 0;
  int64_t end_column = 0;
  // It is called once, before the sums, and returns when the rows of all ranks are there, with
  // these columns at least. The rows of expert i are [first_row[i], first_row[i + 1]); empty on a
  // GPU.
  void (*gather)(void* context, std::span<const int32_t> first_row) = nullptr;
  void* context = nullptr;
};

// What an adapter adds to the products of one expert (api/lora.h); null: nothing. Each part is of all
// outputs of its matrix that are here, without base_gain.
struct ExpertUpdate {
  const LoraPart* gate = nullptr;
  const LoraPart* up = nullptr;
  const LoraPart* down = nullptr;
};

// The adapters of a call's tokens. Tokens without one keep their bits.
struct ExpertUpdates {
  const int32_t* adapter_of = nullptr;  // [T]: index in `adapters`; -1: none
  std::span<const std::span<const ExpertUpdate>> adapters = {};  // [X] each
  DType dtype = DType::kBF16;                                    // as LoraParams::dtype
  int64_t max_rank = 0;                                          // of any part
  void* workspace = nullptr;                                     // expert_updates_bytes() bytes
};
// For up to `num_pairs` pairs of a token and its expert, of whom so many experts there are.
int64_t expert_updates_bytes(int64_t num_pairs, int64_t num_experts, int64_t max_rank);

// out[t] = (accumulate ? out[t] : 0) + sum_j expert_weights[t, j] * expert(expert_ids[t, j], x[t]).
struct RunExpertsParams {
  ConstActivations x = nullptr;                 // [T, E]
  std::span<const ExpertWeights> experts = {};  // [X], all that are here of the same E and I
  const int32_t* expert_ids = nullptr;          // [T, k], each in [0, X)
  const float* expert_weights = nullptr;        // [T, k]
  int32_t experts_per_token = 0;                // k
  ExpertActivation activation = {};
  Activations out = nullptr;  // [T, E], not x
  bool accumulate = false;
  int64_t num_tokens = 0;     // T
  void* workspace = nullptr;  // experts_workspace_bytes() bytes
  // Null: the experts are whole, and all of them are here. At most one.
  const ExpertsExchange* exchange = nullptr;
  const ExpertsSpread* spread = nullptr;
  const ExpertUpdates* updates = nullptr;  // CPU only; null: no token has an adapter
};
void run_experts(Stream& stream, const RunExpertsParams& params);

// For up to `max_tokens` tokens.
int64_t experts_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                std::span<const ExpertWeights> experts, int32_t experts_per_token);

// Whether the stream's backend has these ops.
bool supports_experts(const Stream& stream);

}  // namespace quire
