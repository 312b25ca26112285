// MiniCPM3: latent attention with halves rotated, an MLP in every layer, MiniCPM's multipliers.
#include "models/config_fields.h"
#include "models/config_reader.h"
#include "models/families/latent/latent_fields.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr std::string_view kMinicpm3Types[] = {"minicpm3"};

void read_minicpm3(const ConfigReader& reader, ModelConfig& config) {
  read_minicpm_multipliers(reader, config);
  const LatentSpec defaults{
      .rank = 256,
      .rope_dim = 32,
      .nope_dim = 64,
      .value_dim = static_cast<int32_t>(config.hidden_size / config.num_attention_heads),
      .query_rank = 768};
  read_latent(reader, defaults, config);
}

}  // namespace

const Family& minicpm3_family() {
  static constexpr Family family{
      .name = "minicpm3",
      .model_types = kMinicpm3Types,
      .gguf_architecture = "minicpm3",
      .defaults = {.vocab_size = 73448,
                   .hidden_size = 2560,
                   .intermediate_size = 6400,
                   .num_hidden_layers = 62,
                   .num_attention_heads = 40,
                   .head_dim = 32,
                   .max_position_embeddings = 32768,
                   .norm_eps = 1e-5,
                   .tie_word_embeddings = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_minicpm3,
      .hf_names = kLatentNames,
      .gguf_names = kGgufLatentNames,
  };
  return family;
}

}  // namespace quire
