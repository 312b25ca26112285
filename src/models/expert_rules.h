// A family's rules for its routed experts, as data, and what a configuration says under these
// rules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/decoder_spec.h"

namespace quire {

class ConfigReader;
struct ModelConfig;

// Which layers have experts instead of an MLP.
enum class ExpertLayers : uint8_t {
  kAll,
  kSparseStep,  // every decoder_sparse_step-th, except mlp_only_layers (Qwen)
  kAfterDense,  // all but the first first_k_dense_replace (GLM)
  kInterval,    // every moe_layer_interval-th from moe_layer_start_index to moe_layer_end_index
};

// The MLP beside the experts that every token goes through.
enum class SharedExperts : uint8_t {
  kNone,
  kSize,   // as wide as shared_expert_intermediate_size; 0: none
  kCount,  // as wide as num_shared_experts experts; 0: none
};

// The keys are num_experts, num_experts_per_tok and moe_intermediate_size, or a family's aliases.
struct ExpertRules {
  // How scores become weights. Its num_experts and experts_per_token are defaults; 0: required.
  RouterSpec router = {};
  int64_t intermediate_size = 0;  // default; 0: experts are as wide as the key intermediate_size
  // The defaults of norm_topk_prob, which turns RouterWeight::kScore into kNormalized, in
  // config.json and in GGUF files, which may lack it. Not set: the key does not exist.
  std::optional<bool> normalizes = {};
  bool gguf_normalizes = false;
  ExpertLayers layers = ExpertLayers::kAll;
  int64_t first_layer = 0;  // default of first_k_dense_replace and moe_layer_start_index
  SharedExperts shared = SharedExperts::kNone;
  int64_t shared_default = 0;  // default of the key for their width
  // The shared MLP's output is multiplied by sigmoid(shared_router(x)).
  bool has_shared_router = false;
  bool has_correction = false;  // a bias on the scores that affects only the choice
  bool router_bias = false;     // on the logits
  bool expert_bias = false;
  bool may_have_none = false;  // num_experts may be 0
  bool has_clamp = false;      // swiglu_limit (kernels/api/experts.h)
  bool weighs_inputs = false;  // ExpertsSpec::weighs_inputs
};

struct ExpertsConfig {
  ExpertsSpec spec = {};
  std::vector<bool> layers = {};  // whether each layer has experts; empty: none has
  int64_t shared_intermediate_size = 0;

  bool has(size_t layer) const { return layer < layers.size() && layers[layer]; }
};

// Sets which layers have experts by mlp_layer_types, a list of "dense" and "sparse", if the key
// exists.
void read_mlp_layer_types(const ConfigReader& reader, ModelConfig& config);

// Reads the keys of `config.family->experts`, once the model's sizes are known.
void read_experts(const ConfigReader& reader, ModelConfig& config);

}  // namespace quire
