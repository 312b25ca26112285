// A few first layers with an MLP, and then experts beside a shared MLP: GLM-4.5, 4.6 and 4.7 (half
// of each head is rotated, as two halves) and Ernie 4.5 (rotated in pairs).
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr NameMapEntry kGlmEntries[] = {
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mlp.gate.e_score_correction_bias",
     .bare = true},
};
constexpr std::string_view kGlmTypes[] = {"glm4_moe"};
constexpr KeyAlias kGlmAliases[] = {{"num_experts", "n_routed_experts"},
                                    {"num_shared_experts", "n_shared_experts"}};
constexpr ExpertRules kGlmExperts{
    .router = {.num_experts = 128,
               .experts_per_token = 8,
               .score = RouterScore::kSigmoid,
               .min_sum = 1e-20f,
               .group_score = GroupScore::kSumOfTwo},
    .intermediate_size = 1408,
    .normalizes = true,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kAfterDense,
    .first_layer = 1,
    .shared = SharedExperts::kCount,
    .shared_default = 1,
    .has_correction = true,
};

void read_glm(const ConfigReader& reader, ModelConfig& config) {
  if (reader.boolean("use_qk_norm", false)) config.qk_norm = QkNorm::kHead;
}

constexpr NameMapEntry kErnieEntries[] = {
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mlp.moe_statics.e_score_correction_bias",
     .bare = true},
};
constexpr std::string_view kErnieTypes[] = {"ernie4_5_moe"};
constexpr KeyAlias kErnieAliases[] = {{"num_experts", "moe_num_experts"},
                                      {"num_experts_per_tok", "moe_k"},
                                      {"num_shared_experts", "moe_num_shared_experts"},
                                      {"attention_bias", "use_bias"},
                                      {"mlp_bias", "use_bias"}};
constexpr ExpertRules kErnieExperts{
    .router = {.num_experts = 64,
               .experts_per_token = 6,
               .weight = RouterWeight::kNormalized,
               .min_sum = 1e-12f},
    .intermediate_size = 1536,
    .layers = ExpertLayers::kInterval,
    .first_layer = 1,
    .shared = SharedExperts::kCount,
    .shared_default = 2,
    .has_correction = true,
};

}  // namespace

const Family& glm4_moe_family() {
  static constexpr Family family{
      .name = "glm4_moe",
      .model_types = kGlmTypes,
      .gguf_architecture = "glm4moe",
      .defaults = {.vocab_size = 151552,
                   .hidden_size = 4096,
                   .intermediate_size = 10944,
                   .num_hidden_layers = 46,
                   .num_attention_heads = 96,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.5},
      .aliases = kGlmAliases,
      .experts = &kGlmExperts,
      .qkv_bias = BiasRule::kConfig,
      .read_more = read_glm,
      .hf_names = {.entries = kGlmEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames,
                   .ignores_later_layers = true},
      .gguf_names = kGgufPostAttentionNames,
  };
  return family;
}

const Family& ernie_moe_family() {
  static constexpr Family family{
      .name = "ernie4_5_moe",
      .model_types = kErnieTypes,
      .gguf_architecture = "ernie4_5-moe",
      .defaults = {.vocab_size = 103424,
                   .hidden_size = 2560,
                   .intermediate_size = 12288,
                   .num_hidden_layers = 28,
                   .num_attention_heads = 20,
                   .num_key_value_heads = 4,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 500000.0,
                   .tie_word_embeddings = true},
      .aliases = kErnieAliases,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kErnieExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .hf_names = {.entries = kErnieEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames},
      .gguf_names = kGgufExpertNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

}  // namespace quire
