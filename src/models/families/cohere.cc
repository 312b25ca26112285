// Cohere's Command R: one LayerNorm without bias, attention and MLP in parallel, rope on pairs,
// scaled logits. Cohere 2 has windows in three of four layers; the fourth does not rotate.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kCohereTypes[] = {"cohere"};
constexpr std::string_view kCohere2Types[] = {"cohere2"};
constexpr KeyAlias kCohereAliases[] = {{"rms_norm_eps", "layer_norm_eps"}};
constexpr BlockStyle kCohereBlock{.norm = NormKind::kLayer,
                                  .residual = ResidualStyle::kParallelOneNorm};

void read_cohere(const ConfigReader& reader, ModelConfig& config) {
  config.logit_multiplier = reader.positive("logit_scale", 0.0625);
  if (reader.boolean("use_qk_norm", false)) config.qk_norm = QkNorm::kLayerHead;
}

void read_cohere2(const ConfigReader& reader, ModelConfig& config) {
  config.logit_multiplier = reader.positive("logit_scale", 0.0625);
  for (size_t i = 0; i < config.layer_rope.size(); ++i)
    config.layer_rope[i] = config.layer_windows[i] > 0;
}

}  // namespace

const Family& cohere_family() {
  static constexpr Family family{
      .name = "cohere",
      .model_types = kCohereTypes,
      .gguf_architecture = "command-r",
      .defaults = {.vocab_size = 256000,
                   .hidden_size = 8192,
                   .intermediate_size = 22528,
                   .num_hidden_layers = 40,
                   .num_attention_heads = 64,
                   .max_position_embeddings = 8192,
                   .norm_eps = 1e-5,
                   .rope_theta = 500000.0,
                   .tie_word_embeddings = true},
      .aliases = kCohereAliases,
      .rope_style = RopeStyle::kInterleaved,
      .block = kCohereBlock,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_cohere,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& cohere2_family() {
  static constexpr Family family{
      .name = "cohere2",
      .model_types = kCohere2Types,
      .gguf_architecture = "cohere2",
      .defaults = {.vocab_size = 256000,
                   .hidden_size = 8192,
                   .intermediate_size = 22528,
                   .num_hidden_layers = 40,
                   .num_attention_heads = 64,
                   .max_position_embeddings = 8192,
                   .sliding_window = 4096,
                   .norm_eps = 1e-5,
                   .tie_word_embeddings = true},
      .aliases = kCohereAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 4,
      .rope_style = RopeStyle::kInterleaved,
      .block = kCohereBlock,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_cohere2,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

}  // namespace quire
