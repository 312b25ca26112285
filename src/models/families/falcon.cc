// Falcon: an MLP without a gate, in parallel with attention. 7B has one KV head and one norm; 40B
// and later models have groups of heads and one or two norms; the first models (RW) have ALiBi and
// a sequential block.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kFalconEntries[] = {
    {TensorRole::kTokenEmbedding, "word_embeddings"},
    {TensorRole::kFinalNorm, "ln_f"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "h.{}.input_layernorm"},
    {TensorRole::kInputNorm, "h.{}.ln_attn"},
    {TensorRole::kQkv, "h.{}.self_attention.query_key_value", false, QkvOrder::kPerKvHead},
    {TensorRole::kO, "h.{}.self_attention.dense"},
    {TensorRole::kPreMlpNorm, "h.{}.post_attention_layernorm"},
    {TensorRole::kPreMlpNorm, "h.{}.ln_mlp"},
    {TensorRole::kUp, "h.{}.mlp.dense_h_to_4h"},
    {TensorRole::kDown, "h.{}.mlp.dense_4h_to_h"},
};
constexpr NamePrefix kFalconPrefixes[] = {{"transformer.", ""}, {"", ""}};

// If there are two norms, the second one is attention's.
constexpr NameMapEntry kFalconGgufEntries[] = {
    {TensorRole::kInputNorm, "blk.{}.attn_norm_2"},
    {TensorRole::kInputNorm, "blk.{}.attn_norm"},
    {TensorRole::kPreMlpNorm, "blk.{}.attn_norm"},
};

constexpr std::string_view kFalconTypes[] = {"falcon"};
constexpr KeyAlias kFalconAliases[] = {{"intermediate_size", "ffn_hidden_size"},
                                       {"hidden_act", "activation"},
                                       {"rms_norm_eps", "layer_norm_epsilon"}};

int64_t num_kv_heads(const ConfigReader& reader, const ModelConfig& config, bool grouped) {
  if (reader.has("num_key_value_heads")) return config.num_key_value_heads;  // GGUF
  if (!grouped) return reader.boolean("multi_query", true) ? 1 : config.num_attention_heads;
  return reader.integer("num_kv_heads", {1, config.num_attention_heads},
                        config.num_attention_heads);
}

void read_falcon(const ConfigReader& reader, ModelConfig& config) {
  const bool grouped = reader.boolean("new_decoder_architecture", false);
  config.num_key_value_heads = num_kv_heads(reader, config, grouped);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    reader.fail(fmt::format("num_kv_heads: expected a divisor of num_attention_heads {}, got {}",
                            config.num_attention_heads, config.num_key_value_heads));
  }
  config.qkv_bias = config.o_bias = config.mlp_bias = reader.boolean("bias", false);
  if (grouped || reader.boolean("parallel_attn", true)) {
    const int64_t norms = reader.integer("num_ln_in_parallel_attn", {1, 2}, grouped ? 2 : 1);
    config.block.residual = norms == 2 ? ResidualStyle::kParallel : ResidualStyle::kParallelOneNorm;
  }
  if (!reader.boolean("alibi", false)) return;
  config.positions = PositionKind::kAlibi;
  // The slopes are added before the scores are scaled.
  config.alibi_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
}

}  // namespace

const Family& falcon_family() {
  static constexpr Family family{
      .name = "falcon",
      .model_types = kFalconTypes,
      .gguf_architecture = "falcon",
      .defaults = {.vocab_size = 65024,
                   .hidden_size = 4544,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 71,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .activation = "gelu",
                   .tie_word_embeddings = true},
      .aliases = kFalconAliases,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .gated_mlp = false,
      .read_more = read_falcon,
      .hf_names = {kFalconEntries, kFalconPrefixes, kIgnoredTensors},
      .gguf_names = {kFalconGgufEntries, kGgufPrefixes, kIgnoredTensors, 0.0f, &kGgufNames},
  };
  return family;
}

}  // namespace quire
