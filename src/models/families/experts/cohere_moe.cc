// Cohere 2 with experts: attention and experts in parallel after one norm, windows in three of four
// layers, which are the only ones that rotate, and optionally a few first layers with an MLP.
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kCohereMoeTypes[] = {"cohere2_moe"};
constexpr KeyAlias kCohereMoeAliases[] = {{"moe_intermediate_size", "intermediate_size"},
                                          {"intermediate_size", "prefix_dense_intermediate_size"}};
constexpr ExpertRules kCohereMoeExperts{
    .router = {.num_experts = 8, .experts_per_token = 2, .weight = RouterWeight::kSoftmaxOfChosen},
    .intermediate_size = 22528,
    .layers = ExpertLayers::kAfterDense,
    .shared = SharedExperts::kCount,
};

void read_router(const ConfigReader& reader, RouterSpec& router) {
  const std::string score = reader.string("expert_selection_fn", "softmax");
  if (score == "sigmoid") {
    router.score = RouterScore::kSigmoid;
    router.weight =
        reader.boolean("norm_topk_prob", true) ? RouterWeight::kNormalized : RouterWeight::kScore;
  } else if (score != "softmax") {
    reader.fail(fmt::format("expert_selection_fn: expected softmax or sigmoid, got {}", score));
  }
}

void read_cohere(const ConfigReader& reader, ModelConfig& config) {
  config.logit_multiplier = reader.positive("logit_scale", 0.0625);
  // If rms_norm_eps is null, the norms are LayerNorms, whose epsilon has another key.
  config.block.norm = reader.has("rms_norm_eps") ? NormKind::kRms : NormKind::kLayer;
  if (config.block.norm == NormKind::kLayer)
    config.norm_eps = reader.positive("layer_norm_eps", 1e-5);
  read_mlp_layer_types(reader, config);
  read_router(reader, config.experts.spec.router);
  const std::string sum = reader.string("shared_expert_combination_strategy", "average");
  if (config.experts.shared_intermediate_size > 0 && sum != "sum") {
    reader.fail(fmt::format("shared_expert_combination_strategy: expected sum, got {}", sum));
  }
  const bool dense_rotates =
      reader.integer("prefix_dense_sliding_window_pattern", {1, 4096}, 1) == 1;
  for (size_t i = 0; i < config.layer_rope.size(); ++i) {
    config.layer_rope[i] = config.layer_windows[i] > 0 || (dense_rotates && !config.experts.has(i));
  }
}

}  // namespace

const Family& cohere2_moe_family() {
  static constexpr Family family{
      .name = "cohere2_moe",
      .model_types = kCohereMoeTypes,
      .defaults = {.vocab_size = 256000,
                   .hidden_size = 8192,
                   .intermediate_size = 22528,
                   .num_hidden_layers = 40,
                   .num_attention_heads = 64,
                   .head_dim = 128,
                   .max_position_embeddings = 8192,
                   .sliding_window = 4096,
                   .norm_eps = 1e-5,
                   .tie_word_embeddings = true},
      .aliases = kCohereMoeAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 4,
      .rope_style = RopeStyle::kInterleaved,
      .experts = &kCohereMoeExperts,
      .block = {.norm = NormKind::kLayer, .residual = ResidualStyle::kParallelOneNorm},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_cohere,
      .hf_names = kMlpExpertNames,
  };
  return family;
}

}  // namespace quire
