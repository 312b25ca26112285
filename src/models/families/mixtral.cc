// Mixtral, and families with its names of experts: MiniMax-M2 (sigmoid router, queries and keys
// normed over all heads, half of each head rotated) and Phi-3.5-MoE (LayerNorms, biases, another
// kind of router).
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

constexpr std::string_view kMixtralTypes[] = {"mixtral"};
constexpr KeyAlias kMixtralAliases[] = {{"num_experts", "num_local_experts"}};
constexpr ExpertRules kMixtralExperts{
    .router = {.num_experts = 8, .experts_per_token = 2, .weight = RouterWeight::kNormalized},
};

bool has_experts(const GgufFile& file) {
  const GgufValue* count = file.find("llama.expert_count");
  return count != nullptr && count->as_int().value_or(0) > 0;
}

constexpr std::string_view kMiniMaxTypes[] = {"minimax_m2"};
constexpr NameMapEntry kMiniMaxEntries[] = {
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.block_sparse_moe.e_score_correction_bias",
     .bare = true},
};
constexpr ExpertRules kMiniMaxExperts{
    .router = {.num_experts = 256,
               .experts_per_token = 8,
               .score = RouterScore::kSigmoid,
               .weight = RouterWeight::kNormalized},
    .has_correction = true,
};

constexpr std::string_view kPhiTypes[] = {"phimoe"};
constexpr ExpertRules kPhiExperts{
    .router = {.num_experts = 16,
               .experts_per_token = 2,
               .weight = RouterWeight::kSparseMixer,
               .jitter = 0.01f},
};

void read_phi(const ConfigReader& reader, ModelConfig& config) {
  config.head_bias = reader.boolean("lm_head_bias", false);
}

}  // namespace

const Family& mixtral_family() {
  static constexpr Family family{
      .name = "mixtral",
      .model_types = kMixtralTypes,
      .gguf_architecture = "llama",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 1e6},
      .aliases = kMixtralAliases,
      .window_rule = WindowRule::kAll,
      .experts = &kMixtralExperts,
      .hf_names = kSparseMoeNames,
      .gguf_names = kGgufExpertNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
      .owns_gguf = has_experts,
  };
  return family;
}

const Family& minimax_m2_family() {
  static constexpr Family family{
      .name = "minimax_m2",
      .model_types = kMiniMaxTypes,
      .gguf_architecture = "minimax-m2",
      .defaults = {.vocab_size = 200064,
                   .hidden_size = 3072,
                   .intermediate_size = 1536,
                   .num_hidden_layers = 62,
                   .num_attention_heads = 48,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 196608,
                   .rope_theta = 5e6},
      .aliases = kMixtralAliases,
      .experts = &kMiniMaxExperts,
      .qk_norm = QkNorm::kAllHeads,
      .hf_names = {.entries = kMiniMaxEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kSparseMoeNames},
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

const Family& phimoe_family() {
  static constexpr Family family{
      .name = "phimoe",
      .model_types = kPhiTypes,
      .gguf_architecture = "phimoe",
      .defaults = {.vocab_size = 32064,
                   .hidden_size = 4096,
                   .intermediate_size = 6400,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 1e6},
      .aliases = kMixtralAliases,
      .window_rule = WindowRule::kAll,
      .experts = &kPhiExperts,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_phi,
      .hf_names = kSparseMoeNames,
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

}  // namespace quire
