// Models with various kinds of attention, and experts chosen by sigmoids as in DeepSeek-V3, beside
// a shared MLP: dots.llm1, Solar Open, K-EXAONE, Hy3, Trinity (AFMoE).
#include <cmath>

#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr ExpertRules rules_of(int32_t num_experts, int32_t experts_per_token, float scale,
                               int64_t intermediate_size, int64_t first_layer) {
  return {.router = {.num_experts = num_experts,
                     .experts_per_token = experts_per_token,
                     .score = RouterScore::kSigmoid,
                     .min_sum = 1e-20f,
                     .scale = scale,
                     .group_score = GroupScore::kSumOfTwo},
          .intermediate_size = intermediate_size,
          .normalizes = true,
          .gguf_normalizes = true,
          .layers = ExpertLayers::kAfterDense,
          .first_layer = first_layer,
          .shared = SharedExperts::kCount,
          .shared_default = 1,
          .has_correction = true};
}

constexpr NameMapEntry kGateBiasEntries[] = {
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mlp.gate.e_score_correction_bias",
     .bare = true},
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mlp.e_score_correction_bias",
     .bare = true},
};
constexpr NameMap kGateBiasNames{.entries = kGateBiasEntries,
                                 .prefixes = kLlamaPrefixes,
                                 .ignored = kIgnoredTensors,
                                 .base = &kMlpExpertNames,
                                 .ignores_later_layers = true};

constexpr std::string_view kDotsTypes[] = {"dots1"};
constexpr ExpertRules kDotsExperts = [] {
  ExpertRules rules = rules_of(0, 0, 1.0f, 1408, 0);
  rules.normalizes = false;
  rules.shared_default = 0;
  return rules;
}();

constexpr std::string_view kSolarTypes[] = {"solar_open"};
constexpr ExpertRules kSolarExperts = rules_of(128, 8, 1.0f, 1280, 0);

constexpr std::string_view kExaoneTypes[] = {"exaone_moe"};
constexpr ExpertRules kExaoneExperts = rules_of(64, 8, 2.5f, 1024, 1);

// In models with windows, the layers without a window do not rotate.
void leave_full_layers(ModelConfig& config) {
  for (size_t i = 0; i < config.layer_rope.size(); ++i)
    config.layer_rope[i] = config.layer_windows[i] > 0;
}

void read_exaone(const ConfigReader& reader, ModelConfig& config) {
  if (reader.has("sliding_window")) leave_full_layers(config);
  read_mlp_layer_types(reader, config);
}

constexpr std::string_view kHyTypes[] = {"hy_v3"};
constexpr KeyAlias kHyAliases[] = {{"routed_scaling_factor", "router_scaling_factor"}};
constexpr ExpertRules kHyExperts = rules_of(192, 8, 2.826f, 1536, 1);
constexpr NameMapEntry kHyEntries[] = {
    {TensorRole::kRouter, "layers.{}.mlp.router.gate"},
    {TensorRole::kRouter, "layers.{}.mlp.gate"},
    {.role = TensorRole::kRouterCorrection, .pattern = "layers.{}.mlp.expert_bias", .bare = true},
    {TensorRole::kSharedGate, "layers.{}.mlp.shared_mlp.gate_proj"},
    {TensorRole::kSharedUp, "layers.{}.mlp.shared_mlp.up_proj"},
    {TensorRole::kSharedDown, "layers.{}.mlp.shared_mlp.down_proj"},
};

constexpr std::string_view kAfTypes[] = {"afmoe"};
constexpr KeyAlias kAfAliases[] = {{"routed_scaling_factor", "route_scale"},
                                   {"sliding_window_pattern", "global_attn_every_n_layers"},
                                   {"first_k_dense_replace", "num_dense_layers"}};
constexpr ExpertRules kAfExperts = [] {
  ExpertRules rules = rules_of(64, 6, 1.0f, 1408, 1);
  rules.shared_default = 2;
  return rules;
}();
constexpr NameMapEntry kAfEntries[] = {
    {TensorRole::kQueryGate, "layers.{}.self_attn.gate_proj"},
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kPreMlpNorm, "layers.{}.pre_mlp_layernorm"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
    {TensorRole::kRouter, "layers.{}.mlp.router.gate"},
    {.role = TensorRole::kRouterCorrection, .pattern = "layers.{}.mlp.expert_bias", .bare = true},
};
constexpr NameMapEntry kGgufAfEntries[] = {{TensorRole::kQueryGate, "blk.{}.attn_gate"}};

void read_afmoe(const ConfigReader& reader, ModelConfig& config) {
  leave_full_layers(config);
  config.has_output_gate = true;
  if (reader.boolean("mup_enabled", false))
    config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
}

}  // namespace

const Family& dots1_family() {
  static constexpr Family family{
      .name = "dots1",
      .model_types = kDotsTypes,
      .gguf_architecture = "dots1",
      .defaults = {.vocab_size = 152064,
                   .hidden_size = 4608,
                   .intermediate_size = 10944,
                   .num_hidden_layers = 62,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .max_position_embeddings = 2048,
                   .sliding_window = 4096},
      .aliases = kDeepseekAliases,
      .experts = &kDotsExperts,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kGateBiasNames,
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

const Family& solar_open_family() {
  static constexpr Family family{
      .name = "solar_open",
      .model_types = kSolarTypes,
      .gguf_architecture = "glm4moe",  // read as GLM-4.5, which has the same kind of layers
      .defaults = {.vocab_size = 196608,
                   .hidden_size = 4096,
                   .intermediate_size = 10240,
                   .num_hidden_layers = 48,
                   .num_attention_heads = 64,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 1e6},
      .aliases = kDeepseekAliases,
      .experts = &kSolarExperts,
      .qkv_bias = BiasRule::kConfig,
      .hf_names = kGateBiasNames,
  };
  return family;
}

const Family& exaone_moe_family() {
  static constexpr Family family{
      .name = "exaone_moe",
      .model_types = kExaoneTypes,
      .gguf_architecture = "exaone-moe",
      .defaults = {.vocab_size = 102400,
                   .hidden_size = 4096,
                   .intermediate_size = 16384,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .max_position_embeddings = 2048,
                   .sliding_window = 4096,
                   .norm_eps = 1e-5},
      .window_rule = WindowRule::kPattern,
      .window_pattern = 4,
      .experts = &kExaoneExperts,
      .qk_norm = QkNorm::kHead,
      .read_more = read_exaone,
      .hf_names = kGateBiasNames,
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

const Family& hy_v3_family() {
  static constexpr Family family{
      .name = "hy_v3",
      .model_types = kHyTypes,
      .defaults = {.vocab_size = 120832,
                   .hidden_size = 4096,
                   .intermediate_size = 13312,
                   .num_hidden_layers = 80,
                   .num_attention_heads = 64,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 11158840.0},
      .aliases = kHyAliases,
      .experts = &kHyExperts,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_mlp_layer_types,
      .hf_names = {.entries = kHyEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames,
                   .ignores_later_layers = true},
  };
  return family;
}

const Family& afmoe_family() {
  static constexpr Family family{
      .name = "afmoe",
      .model_types = kAfTypes,
      .gguf_architecture = "afmoe",
      .defaults = {.vocab_size = 200192,
                   .hidden_size = 2048,
                   .intermediate_size = 6144,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 16,
                   .head_dim = 128,
                   .max_position_embeddings = 16384,
                   .sliding_window = 1024,
                   .norm_eps = 1e-5},
      .aliases = kAfAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 4,
      .experts = &kAfExperts,
      .block = {.output_norms = true},
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_afmoe,
      .hf_names = {.entries = kAfEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kIgnoredTensors,
                   .base = &kMlpExpertNames},
      .gguf_names = {.entries = kGgufAfEntries,
                     .prefixes = kGgufPrefixes,
                     .ignored = kIgnoredTensors,
                     .base = &kGgufExpertNames},
  };
  return family;
}

}  // namespace quire
