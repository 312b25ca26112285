// What a family says of its routed experts, as data, and what a configuration made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/decoder_spec.h"

namespace quire {

class ConfigReader;
struct ModelConfig;

// Which layers have experts; the others have an MLP.
enum class ExpertLayers : uint8_t {
  kAll,
  kSparseStep,  // every decoder_sparse_step-th but for mlp_only_layers (Qwen)
  kAfterDense,  // those behind the first first_k_dense_replace (GLM)
  kInterval,    // every moe_layer_interval-th from moe_layer_start_index to moe_layer_end_index
};

// Every token goes through this MLP beside the experts.
enum class SharedExperts : uint8_t {
  kNone,
  kSize,   // as wide as shared_expert_intermediate_size; 0: none
  kCount,  // as wide as num_shared_experts experts; 0: none
};

// Keys are num_experts, num_experts_per_tok and moe_intermediate_size, or a family's aliases of
// them.
struct ExpertRules {
  // How scores become weights. num_experts and experts_per_token are defaults; 0: required.
  RouterSpec router = {};
  int64_t intermediate_size = 0;  // default; 0: experts are as wide as intermediate_size says
  // Defaults of norm_topk_prob, which makes RouterWeight::kScore kNormalized: in config.json, and
  // in GGUF files, which may leave it out. Not set: there is no such key.
  std::optional<bool> normalizes = {};
  bool gguf_normalizes = false;
  ExpertLayers layers = ExpertLayers::kAll;
  int64_t first_layer = 0;  // default of first_k_dense_replace and moe_layer_start_index
  SharedExperts shared = SharedExperts::kNone;
  int64_t shared_default = 0;      // of the key that says how wide they are
  bool has_shared_router = false;  // a token takes sigmoid(shared_router(x)) of the shared MLP
  bool has_correction = false;     // a bias on the scores for the choice alone
  bool router_bias = false;        // on the logits
  bool expert_bias = false;
  bool may_have_none = false;  // num_experts may be 0
  bool has_clamp = false;      // swiglu_limit (kernels/api/experts.h)
  bool weighs_inputs = false;  // ExpertsSpec::weighs_inputs
};

struct ExpertsConfig {
  ExpertsSpec spec = {};
  std::vector<bool> layers = {};  // which have experts; empty: none
  int64_t shared_intermediate_size = 0;

  bool has(size_t layer) const { return layer < layers.size() && layers[layer]; }
};

// Sets which layers have experts by mlp_layer_types, where it is there: it says "dense" or "sparse"
// for each.
void read_mlp_layer_types(const ConfigReader& reader, ModelConfig& config);

// Reads what `config.family->experts` asks for, once the sizes of the model are known.
void read_experts(const ConfigReader& reader, ModelConfig& config);

}  // namespace quire
