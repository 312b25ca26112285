// ModernBERT: an encoder with norms before attention and MLP, rope, a gate in its MLP and no
// biases; two of three layers have a window on both sides.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kModernbertEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings.tok_embeddings"},
    {TensorRole::kEmbeddingNorm, "embeddings.norm"},
    {TensorRole::kInputNorm, "layers.{}.attn_norm"},
    {TensorRole::kQkv, "layers.{}.attn.Wqkv"},
    {TensorRole::kO, "layers.{}.attn.Wo"},
    {TensorRole::kPreMlpNorm, "layers.{}.mlp_norm"},
    {TensorRole::kGateUp, "layers.{}.mlp.Wi"},
    {TensorRole::kDown, "layers.{}.mlp.Wo"},
    {TensorRole::kFinalNorm, "final_norm"},
};
constexpr NamePrefix kModernbertPrefixes[] = {{"model.", ""}, {"", ""}};
// The head that predicts words.
constexpr std::string_view kModernbertIgnored[] = {"decoder.", "head.", "inv_freq"};
constexpr std::string_view kModernbertTypes[] = {"modernbert"};
constexpr KeyAlias kModernbertAliases[] = {
    {"rms_norm_eps", "norm_eps"},
    {"hidden_act", "hidden_activation"},
    {"rope_theta", "global_rope_theta"},
    {"rope_local_base_freq", "local_rope_theta"},
};

// Half of a window lies on each side of a token.
void read_local_layers(const ConfigReader& reader, ModelConfig& config) {
  const int64_t window = reader.integer("local_attention", {2, 1 << 24}, 128) / 2 + 1;
  const int64_t every = reader.integer("global_attn_every_n_layers", {1, 4096}, 3);
  const std::vector<std::string> types = reader.strings("layer_types");
  if (!types.empty() && types.size() != config.layer_windows.size()) {
    return reader.fail(fmt::format("layer_types: expected num_hidden_layers = {} entries, got {}",
                                   config.layer_windows.size(), types.size()));
  }
  for (size_t i = 0; i < config.layer_windows.size(); ++i) {
    const bool is_local =
        types.empty() ? static_cast<int64_t>(i) % every != 0 : types[i] == "sliding_attention";
    if (!types.empty() && !is_local && types[i] != "full_attention") {
      return reader.fail(fmt::format(
          "layer_types: expected sliding_attention or full_attention, got {}", types[i]));
    }
    config.layer_windows[i] = is_local ? static_cast<int32_t>(window) : 0;
  }
}

void read_modernbert(const ConfigReader& reader, ModelConfig& config) {
  read_local_layers(reader, config);
  config.first_layer_norm = false;
  for (const std::string_view key : {"norm_bias", "classifier_bias"}) {
    if (reader.boolean(key, false)) reader.fail(fmt::format("{}: expected false, got true", key));
  }
  const std::string activation = reader.string("classifier_activation", "gelu");
  if (activation != "gelu")
    reader.fail(fmt::format("classifier_activation: expected gelu, got {}", activation));
}

}  // namespace

const Family& modernbert_family() {
  static constexpr Family family{
      .name = "modernbert",
      .model_types = kModernbertTypes,
      .defaults = {.vocab_size = 50368,
                   .hidden_size = 768,
                   .intermediate_size = 1152,
                   .num_hidden_layers = 22,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 8192,
                   .norm_eps = 1e-5,
                   .rope_theta = 160000.0,
                   .local_rope_theta = 10000.0,
                   .activation = "gelu"},
      .aliases = kModernbertAliases,
      .has_local_rope = true,
      .is_bidirectional = true,
      .classifier = ClassifierKind::kNormedDense,
      .default_pooling = PoolingKind::kCls,
      .block = {.norm = NormKind::kLayer, .embedding_norm = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_modernbert,
      .hf_names = {kModernbertEntries, kModernbertPrefixes, kModernbertIgnored},
  };
  return family;
}

}  // namespace quire
