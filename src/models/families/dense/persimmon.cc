// Persimmon, which is also the text model of Fuyu: queries, keys and values in one tensor head by
// head, LayerNorms with biases, also of queries and keys, and rope over half of a head.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kPersimmonTypes[] = {"persimmon"};
constexpr KeyAlias kPersimmonAliases[] = {{"rms_norm_eps", "layer_norm_eps"}};
constexpr NameMapEntry kPersimmonEntries[] = {
    {TensorRole::kFinalNorm, "final_layernorm"},
    {TensorRole::kQkv, "layers.{}.self_attn.query_key_value", false, QkvOrder::kPerKvHead},
    {TensorRole::kO, "layers.{}.self_attn.dense"},
    {TensorRole::kQNorm, "layers.{}.self_attn.q_layernorm"},
    {TensorRole::kKNorm, "layers.{}.self_attn.k_layernorm"},
    {TensorRole::kUp, "layers.{}.mlp.dense_h_to_4h"},
    {TensorRole::kDown, "layers.{}.mlp.dense_4h_to_h"},
};
constexpr std::string_view kPersimmonIgnored[] = {"rotary_emb.inv_freq", "vision_embed_tokens."};

void read_persimmon(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("qk_layernorm", true)) config.qk_norm.reset();
}

}  // namespace

const Family& persimmon_family() {
  static constexpr Family family{
      .name = "persimmon",
      .model_types = kPersimmonTypes,
      .defaults = {.vocab_size = 262144,
                   .hidden_size = 4096,
                   .intermediate_size = 16384,
                   .num_hidden_layers = 36,
                   .num_attention_heads = 64,
                   .max_position_embeddings = 16384,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.5,
                   .activation = "relu2"},
      .aliases = kPersimmonAliases,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qk_norm = QkNorm::kBiasedHead,
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_persimmon,
      .hf_names = {.entries = kPersimmonEntries,
                   .prefixes = kLlamaPrefixes,
                   .ignored = kPersimmonIgnored,
                   .base = &kLlamaNames},
  };
  return family;
}

}  // namespace quire
