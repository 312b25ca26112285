// Granite-MoE (multipliers, gate and up of all experts in one tensor, optionally a shared MLP,
// windows and sinks) and OLMoE (queries and keys normed over all heads).
#include "models/config_fields.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr SharedRows kGateRows{.part = 0, .parts = 2};
constexpr SharedRows kUpRows{.part = 1, .parts = 2};
constexpr std::string_view kInputs = "layers.{}.block_sparse_moe.input_linear.{e}";
constexpr std::string_view kSharedInputs = "layers.{}.shared_mlp.input_linear";

constexpr NameMapEntry kGraniteEntries[] = {
    {TensorRole::kRouter, "layers.{}.block_sparse_moe.router.layer"},
    {.role = TensorRole::kExpertGate, .pattern = kInputs, .rows = kGateRows},
    {.role = TensorRole::kExpertUp, .pattern = kInputs, .rows = kUpRows},
    {TensorRole::kExpertDown, "layers.{}.block_sparse_moe.output_linear.{e}"},
    {.role = TensorRole::kSharedGate, .pattern = kSharedInputs, .rows = kGateRows},
    {.role = TensorRole::kSharedUp, .pattern = kSharedInputs, .rows = kUpRows},
    {TensorRole::kSharedDown, "layers.{}.shared_mlp.output_linear"},
};
// For models with windows and sinks, and experts under the names of newer tools.
constexpr std::string_view kSwaInputs = "layers.{}.block_sparse_moe.experts.gate_up_proj.{e}";
constexpr NameMapEntry kSwaEntries[] = {
    {.role = TensorRole::kSinks, .pattern = "layers.{}.self_attn.sinks", .bare = true},
    {TensorRole::kRouter, "layers.{}.block_sparse_moe.router"},
    {.role = TensorRole::kExpertGate, .pattern = kSwaInputs, .rows = kGateRows},
    {.role = TensorRole::kExpertUp, .pattern = kSwaInputs, .rows = kUpRows},
    {TensorRole::kExpertDown, "layers.{}.block_sparse_moe.experts.down_proj.{e}"},
};
constexpr std::string_view kSwaTypes[] = {"granitemoe_swa"};

constexpr std::string_view kGraniteTypes[] = {"granitemoe", "granitemoeshared"};
constexpr KeyAlias kGraniteAliases[] = {
    {"num_experts", "num_local_experts"},
    {"shared_expert_intermediate_size", "shared_intermediate_size"},
    {"logits_scaling", "logit_scale"}};
constexpr ExpertRules kGraniteExperts{
    .router = {.num_experts = 8, .experts_per_token = 2, .weight = RouterWeight::kSoftmaxOfChosen},
    .shared = SharedExperts::kSize,
};

constexpr std::string_view kOlmoeTypes[] = {"olmoe"};
constexpr ExpertRules kOlmoeExperts{
    .router = {.num_experts = 64, .experts_per_token = 8},
    .normalizes = false,
};

void read_olmoe(const ConfigReader& reader, ModelConfig& config) {
  config.qkv_clip = reader.optional_positive("clip_qkv").value_or(0.0);
}

constexpr NameMap kGraniteNames{.entries = kGraniteEntries,
                                .prefixes = kLlamaPrefixes,
                                .ignored = kIgnoredTensors,
                                .base = &kLlamaNames};

}  // namespace

const Family& granite_moe_family() {
  static constexpr Family family{
      .name = "granitemoe",
      .model_types = kGraniteTypes,
      .gguf_architecture = "granitemoe",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048},
      .aliases = kGraniteAliases,
      .experts = &kGraniteExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_granite_multipliers,
      .hf_names = kGraniteNames,
      .gguf_names = kGgufExpertNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& granitemoe_swa_family() {
  static constexpr Family family{
      .name = "granitemoe_swa",
      .model_types = kSwaTypes,
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .sliding_window = 128},
      .aliases = kGraniteAliases,
      .window_rule = WindowRule::kAll,
      .has_sinks = true,
      .experts = &kGraniteExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_granite_layers,
      .hf_names = {.entries = kSwaEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kGraniteNames},
  };
  return family;
}

const Family& olmoe_family() {
  static constexpr Family family{
      .name = "olmoe",
      .model_types = kOlmoeTypes,
      .gguf_architecture = "olmoe",
      .defaults = {.vocab_size = 50304,
                   .hidden_size = 2048,
                   .intermediate_size = 2048,
                   .num_hidden_layers = 16,
                   .num_attention_heads = 16,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5},
      .experts = &kOlmoeExperts,
      .qk_norm = QkNorm::kAllHeads,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_olmoe,
      .hf_names = kMlpExpertNames,
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

}  // namespace quire
