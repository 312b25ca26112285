// StableLM: LayerNorms with bias, rope over a quarter of a head, and in the 12B norms of each
// head's queries and keys.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kStablelmEntries[] = {
    {TensorRole::kQNorm, "layers.{}.self_attn.q_layernorm.norms.{head}"},
    {TensorRole::kKNorm, "layers.{}.self_attn.k_layernorm.norms.{head}"},
};
constexpr NameMap kStablelmNames{kStablelmEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                 &kLlamaNames};

constexpr std::string_view kStablelmTypes[] = {"stablelm"};
constexpr KeyAlias kStablelmAliases[] = {{"rms_norm_eps", "layer_norm_eps"},
                                         {"attention_bias", "use_qkv_bias"},
                                         {"use_qk_norm", "qk_layernorm"}};

void read_stablelm(const ConfigReader& reader, ModelConfig& config) {
  if (reader.boolean("use_qk_norm", false)) config.qk_norm = QkNorm::kLayerHead;
  if (reader.boolean("use_parallel_residual", false))
    config.block.residual = ResidualStyle::kParallelOneNorm;
}

}  // namespace

const Family& stablelm_family() {
  static constexpr Family family{
      .name = "stablelm",
      .model_types = kStablelmTypes,
      .gguf_architecture = "stablelm",
      .defaults = {.vocab_size = 50304,
                   .hidden_size = 2560,
                   .intermediate_size = 6912,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.25},
      .aliases = kStablelmAliases,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kConfig,
      .read_more = read_stablelm,
      .hf_names = kStablelmNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
