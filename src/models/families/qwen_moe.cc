// The attention of dense models, with routed experts in some layers: Qwen2-MoE (a shared MLP with a
// weight per token), Qwen3-MoE (no shared MLP) and Mellum 2 (windows in some layers, which have a
// rope of their own).
#include "models/expert_names.h"
#include "models/family.h"

namespace quire {
namespace {

constexpr NameMapEntry kSharedEntries[] = {
    {TensorRole::kSharedGate, "layers.{}.mlp.shared_expert.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.mlp.shared_expert.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mlp.shared_expert.down_proj"},
    {TensorRole::kSharedRouter, "layers.{}.mlp.shared_expert_gate"},
};

constexpr std::string_view kQwen2Types[] = {"qwen2_moe"};
constexpr std::string_view kQwen3Types[] = {"qwen3_moe"};
constexpr KeyAlias kQwen3Aliases[] = {{"num_experts", "num_local_experts"}};

constexpr ExpertRules kQwen2Experts{
    .router = {.num_experts = 60, .experts_per_token = 4},
    .intermediate_size = 1408,
    .normalizes = false,
    .layers = ExpertLayers::kSparseStep,
    .shared = SharedExperts::kSize,
    .shared_default = 5632,
    .has_shared_router = true,
};
constexpr ExpertRules kQwen3Experts{
    .router = {.num_experts = 128, .experts_per_token = 8},
    .intermediate_size = 768,
    .normalizes = false,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kSparseStep,
};

constexpr std::string_view kMellumTypes[] = {"mellum"};
constexpr ExpertRules kMellumExperts{
    .router = {.num_experts = 64, .experts_per_token = 8},
    .intermediate_size = 896,
    .normalizes = true,
};
// A layer that predicts a further token.
constexpr std::string_view kMellumIgnored[] = {"rotary_emb.inv_freq", "mtp."};

}  // namespace

const Family& qwen2_moe_family() {
  static constexpr Family family{
      .name = "qwen2_moe",
      .model_types = kQwen2Types,
      .gguf_architecture = "qwen2moe",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 2048,
                   .intermediate_size = 5632,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 16,
                   .num_key_value_heads = 16,
                   .max_position_embeddings = 32768,
                   .sliding_window = 4096},
      .window_rule = WindowRule::kFromLayer,
      .experts = &kQwen2Experts,
      .qkv_bias = BiasRule::kAlways,
      .hf_names = {.entries = kSharedEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames},
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

const Family& qwen3_moe_family() {
  static constexpr Family family{
      .name = "qwen3_moe",
      .model_types = kQwen3Types,
      .gguf_architecture = "qwen3moe",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 2048,
                   .intermediate_size = 6144,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 4,
                   .max_position_embeddings = 32768,
                   .sliding_window = 4096},
      .aliases = kQwen3Aliases,
      .window_rule = WindowRule::kAllWhenUsed,
      .experts = &kQwen3Experts,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kMlpExpertNames,
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

// Only layer_types decides which layers have a window.
const Family& mellum_family() {
  static constexpr Family family{
      .name = "mellum",
      .model_types = kMellumTypes,
      .defaults = {.vocab_size = 98304,
                   .hidden_size = 2304,
                   .intermediate_size = 7168,
                   .num_hidden_layers = 28,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 4,
                   .head_dim = 128,
                   .max_position_embeddings = 131072,
                   .sliding_window = 1024,
                   .rope_theta = 500000.0},
      .aliases = kQwen3Aliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 1,
      .has_local_rope = true,
      .experts = &kMellumExperts,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_mlp_layer_types,
      .hf_names = {.prefixes = kLlamaPrefixes, .ignored = kMellumIgnored, .base = &kMlpExpertNames},
  };
  return family;
}

}  // namespace quire
