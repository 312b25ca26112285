// Decoders with ALiBi: Bloom (a norm after the embedding; queries, keys and values head by head)
// and MPT (no biases).
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kBloomEntries[] = {
    {TensorRole::kTokenEmbedding, "word_embeddings"},
    {TensorRole::kEmbeddingNorm, "word_embeddings_layernorm"},
    {TensorRole::kFinalNorm, "ln_f"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "h.{}.input_layernorm"},
    {TensorRole::kQkv, "h.{}.self_attention.query_key_value", false, QkvOrder::kPerKvHead},
    {TensorRole::kO, "h.{}.self_attention.dense"},
    {TensorRole::kPreMlpNorm, "h.{}.post_attention_layernorm"},
    {TensorRole::kUp, "h.{}.mlp.dense_h_to_4h"},
    {TensorRole::kDown, "h.{}.mlp.dense_4h_to_h"},
};
constexpr NamePrefix kBloomPrefixes[] = {{"transformer.", ""}, {"", ""}};

constexpr std::string_view kBloomTypes[] = {"bloom"};
constexpr KeyAlias kBloomAliases[] = {{"hidden_size", "n_embed"},
                                      {"num_hidden_layers", "n_layer"},
                                      {"num_attention_heads", "n_head"},
                                      {"max_position_embeddings", "seq_length"},
                                      {"rms_norm_eps", "layer_norm_epsilon"}};

void read_bloom(const ConfigReader& reader, ModelConfig&) {
  if (reader.boolean("apply_residual_connection_post_layernorm", false))
    reader.fail("apply_residual_connection_post_layernorm: expected false, got true");
}

constexpr NameMapEntry kMptEntries[] = {
    {TensorRole::kTokenEmbedding, "wte"},
    {TensorRole::kFinalNorm, "norm_f"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "blocks.{}.norm_1"},
    {TensorRole::kQkv, "blocks.{}.attn.Wqkv"},
    {TensorRole::kO, "blocks.{}.attn.out_proj"},
    {TensorRole::kPreMlpNorm, "blocks.{}.norm_2"},
    {TensorRole::kUp, "blocks.{}.ffn.up_proj"},
    {TensorRole::kDown, "blocks.{}.ffn.down_proj"},
};

constexpr std::string_view kMptTypes[] = {"mpt"};
constexpr KeyAlias kMptAliases[] = {{"hidden_size", "d_model"},
                                    {"num_hidden_layers", "n_layers"},
                                    {"num_attention_heads", "n_heads"},
                                    {"max_position_embeddings", "max_seq_len"},
                                    {"rms_norm_eps", "layer_norm_epsilon"}};

void read_mpt(const ConfigReader& reader, ModelConfig& config) {
  if (reader.has("expansion_ratio")) {
    config.intermediate_size = reader.integer("expansion_ratio", {1, 64}) * config.hidden_size;
  }
  if (!reader.boolean("no_bias", true)) reader.fail("no_bias: expected true, got false");
  config.alibi_bias_max = reader.positive("alibi_bias_max", 8.0);
  const std::optional<ConfigReader> attention = reader.child("attn_config");
  config.qkv_clip = (attention ? *attention : reader).optional_positive("clip_qkv").value_or(0.0);
  if (!attention) return;
  if (!attention->boolean("alibi", true)) attention->fail("alibi: expected true, got false");
  if (attention->boolean("qk_ln", false)) attention->fail("qk_ln: expected false, got true");
  config.alibi_bias_max = attention->positive("alibi_bias_max", 8.0);
  config.attention_scale = attention->optional_positive("softmax_scale");
}

}  // namespace

const Family& bloom_family() {
  static constexpr Family family{
      .name = "bloom",
      .model_types = kBloomTypes,
      .gguf_architecture = "bloom",
      .defaults = {.vocab_size = 250880,
                   .hidden_size = 64,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 8,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kBloomAliases,
      .positions = PositionKind::kAlibi,
      .block = {.norm = NormKind::kLayer, .norm_bias = true, .embedding_norm = true},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_bloom,
      .hf_names = {kBloomEntries, kBloomPrefixes},
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& mpt_family() {
  static constexpr Family family{
      .name = "mpt",
      .model_types = kMptTypes,
      .gguf_architecture = "mpt",
      .defaults = {.vocab_size = 50368,
                   .hidden_size = 2048,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 16,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .activation = "gelu",
                   .tie_word_embeddings = true},
      .aliases = kMptAliases,
      .positions = PositionKind::kAlibi,
      .block = {.norm = NormKind::kLayer},
      .gated_mlp = false,
      .read_more = read_mpt,
      .hf_names = {kMptEntries, kBloomPrefixes},
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
