// Experts beside a shared MLP, with plain attention: the first DeepSeek models with experts
// (DeepSeekMoE 16B), Ling and Ring (Bailing: queries, keys and values in one tensor), and their
// second generation (half of each head is rotated, experts are chosen by sigmoids in groups).
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kDeepseekTypes[] = {"deepseek"};
constexpr ExpertRules kDeepseekExperts{
    .intermediate_size = 1407,
    .normalizes = false,
    .layers = ExpertLayers::kAfterDense,
    .shared = SharedExperts::kCount,
};

void read_deepseek(const ConfigReader& reader, ModelConfig&) {
  if (const std::string score = reader.string("scoring_func", "softmax"); score != "softmax")
    reader.fail(fmt::format("scoring_func: expected softmax, got {}", score));
  if (const int64_t step = reader.integer("moe_layer_freq", {1, 4096}, 1); step != 1)
    reader.fail(fmt::format("moe_layer_freq: expected 1, got {}", step));
}

constexpr KeyAlias kBailingAliases[] = {{"attention_bias", "use_qkv_bias"}};
constexpr NameMapEntry kBailingEntries[] = {
    {TensorRole::kTokenEmbedding, "word_embeddings"},
    {TensorRole::kQkv, "layers.{}.attention.query_key_value"},
    {TensorRole::kO, "layers.{}.attention.dense"},
    {TensorRole::kQNorm, "layers.{}.attention.query_layernorm"},
    {TensorRole::kKNorm, "layers.{}.attention.key_layernorm"},
    {.role = TensorRole::kRouterCorrection,
     .pattern = "layers.{}.mlp.gate.expert_bias",
     .bare = true},
};
constexpr NameMap kBailingNames{.entries = kBailingEntries,
                                .prefixes = kLlamaPrefixes,
                                .ignored = kIgnoredTensors,
                                .base = &kMlpExpertNames,
                                .ignores_later_layers = true};
constexpr NameMapEntry kUnitHeadEntries[] = {
    {.role = TensorRole::kLmHead, .pattern = "lm_head", .unit_rows = true}};
constexpr NameMap kUnitHeadNames{.entries = kUnitHeadEntries,
                                 .prefixes = kLlamaPrefixes,
                                 .ignored = kIgnoredTensors,
                                 .base = &kBailingNames,
                                 .ignores_later_layers = true};

constexpr std::string_view kBailingTypes[] = {"bailing_moe"};
constexpr ExpertRules kBailingExperts{
    .normalizes = true,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kAfterDense,
    .shared = SharedExperts::kCount,
};

void read_bailing(const ConfigReader& reader, ModelConfig& config) {
  config.o_bias = reader.boolean("use_bias", false);
  if (reader.boolean("norm_head", false)) config.names = kUnitHeadNames;
  for (const std::string_view key : {"multi_gate", "norm_softmax"}) {
    if (reader.boolean(key, false)) reader.fail(fmt::format("{}: expected false, got true", key));
  }
}

constexpr std::string_view kBailing2Types[] = {"bailing_moe_v2"};
constexpr ExpertRules kBailing2Experts{
    .router = {.score = RouterScore::kSigmoid,
               .min_sum = 1e-20f,
               .group_score = GroupScore::kSumOfTwo},
    .normalizes = true,
    .gguf_normalizes = true,
    .layers = ExpertLayers::kAfterDense,
    .shared = SharedExperts::kCount,
    .has_correction = true,
};

void read_bailing2(const ConfigReader& reader, ModelConfig& config) {
  read_bailing(reader, config);
  if (const std::string score = reader.string("score_function", "sigmoid"); score != "sigmoid")
    reader.fail(fmt::format("score_function: expected sigmoid, got {}", score));
  if (reader.boolean("use_qk_norm", false)) config.qk_norm = QkNorm::kHead;
}

constexpr FamilyDefaults kBailingDefaults{.hidden_size = 2048,
                                          .intermediate_size = 5632,
                                          .num_hidden_layers = 28,
                                          .num_attention_heads = 16,
                                          .max_position_embeddings = 16384};

}  // namespace

const Family& deepseek_family() {
  static constexpr Family family{
      .name = "deepseek",
      .model_types = kDeepseekTypes,
      .gguf_architecture = "deepseek",
      .defaults = {.vocab_size = 102400,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 30,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048},
      .aliases = kDeepseekAliases,
      .experts = &kDeepseekExperts,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_deepseek,
      .hf_names = kMlpExpertNames,
      .gguf_names = kGgufExpertNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& bailing_moe_family() {
  static constexpr Family family{
      .name = "bailing_moe",
      .model_types = kBailingTypes,
      .gguf_architecture = "bailingmoe",
      .defaults = kBailingDefaults,
      .aliases = kBailingAliases,
      .experts = &kBailingExperts,
      .qkv_bias = BiasRule::kConfig,
      .read_more = read_bailing,
      .hf_names = kBailingNames,
      .gguf_names = kGgufExpertNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& bailing_moe_v2_family() {
  static constexpr Family family{
      .name = "bailing_moe_v2",
      .model_types = kBailing2Types,
      .gguf_architecture = "bailingmoe2",
      .defaults = kBailingDefaults,
      .aliases = kBailingAliases,
      .experts = &kBailing2Experts,
      .qkv_bias = BiasRule::kConfig,
      .read_more = read_bailing2,
      .hf_names = kBailingNames,
      .gguf_names = kGgufExpertNames,
  };
  return family;
}

}  // namespace quire
