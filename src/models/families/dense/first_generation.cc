// The first generations of Qwen (biases of queries, keys and values; the MLP is half of
// intermediate_size wide) and of ChatGLM 2, 3 and GLM-4-9B with the names of their own code (rope
// on pairs over half of a head).
#include <algorithm>

#include "models/config_fields.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kQwenTypes[] = {"qwen"};
constexpr KeyAlias kQwenAliases[] = {{"rms_norm_eps", "layer_norm_epsilon"},
                                     {"head_dim", "kv_channels"},
                                     {"rope_theta", "rotary_emb_base"},
                                     {"partial_rotary_factor", "rotary_pct"}};
constexpr NameMapEntry kQwenEntries[] = {
    {TensorRole::kTokenEmbedding, "wte"},   {TensorRole::kFinalNorm, "ln_f"},
    {TensorRole::kInputNorm, "h.{}.ln_1"},  {TensorRole::kQkv, "h.{}.attn.c_attn"},
    {TensorRole::kO, "h.{}.attn.c_proj"},   {TensorRole::kPreMlpNorm, "h.{}.ln_2"},
    {TensorRole::kGate, "h.{}.mlp.w2"},     {TensorRole::kUp, "h.{}.mlp.w1"},
    {TensorRole::kDown, "h.{}.mlp.c_proj"},
};
constexpr NamePrefix kQwenPrefixes[] = {{"transformer.", ""}, {"", ""}};
constexpr NameMap kQwenNames{kQwenEntries, kQwenPrefixes, kIgnoredTensors, 0.0f, &kLlamaNames};

void read_qwen(const ConfigReader& reader, ModelConfig& config) {
  if (config.intermediate_size % 2 != 0) {
    reader.fail(fmt::format("intermediate_size: expected an even number, got {}",
                            config.intermediate_size));
  }
  config.intermediate_size /= 2;
  // Beyond this many tokens, its code stretches the base and scales queries by the logarithm of
  // their position, which Quire does not support.
  config.served_length = reader.integer("seq_length", {1, kMaxPositions}, 8192);
  if (!reader.boolean("no_bias", true)) reader.fail("no_bias: expected true, got false");
  if (!reader.boolean("scale_attn_weights", true))
    reader.fail("scale_attn_weights: expected true, got false");
}

constexpr std::string_view kChatGlmTypes[] = {"chatglm"};
constexpr KeyAlias kChatGlmAliases[] = {{"vocab_size", "padded_vocab_size"},
                                        {"num_hidden_layers", "num_layers"},
                                        {"intermediate_size", "ffn_hidden_size"},
                                        {"head_dim", "kv_channels"},
                                        {"num_key_value_heads", "multi_query_group_num"},
                                        {"max_position_embeddings", "seq_length"},
                                        {"rms_norm_eps", "layernorm_epsilon"},
                                        {"attention_bias", "add_qkv_bias"}};
constexpr NameMapEntry kChatGlmEntries[] = {
    {TensorRole::kTokenEmbedding, "embedding.word_embeddings"},
    {TensorRole::kFinalNorm, "encoder.final_layernorm"},
    {TensorRole::kLmHead, "output_layer"},
    {TensorRole::kInputNorm, "encoder.layers.{}.input_layernorm"},
    {TensorRole::kQkv, "encoder.layers.{}.self_attention.query_key_value"},
    {TensorRole::kO, "encoder.layers.{}.self_attention.dense"},
    {TensorRole::kPreMlpNorm, "encoder.layers.{}.post_attention_layernorm"},
    {TensorRole::kGateUp, "encoder.layers.{}.mlp.dense_h_to_4h"},
    {TensorRole::kDown, "encoder.layers.{}.mlp.dense_4h_to_h"},
};
constexpr NamePrefix kChatGlmPrefixes[] = {{"transformer.", "transformer."}};
constexpr std::string_view kChatGlmIgnored[] = {"rotary_pos_emb.inv_freq"};

void read_chatglm(const ConfigReader& reader, ModelConfig& config) {
  if (reader.boolean("position_encoding_2d", false))
    reader.fail("position_encoding_2d: expected false (ChatGLM 2 and later), got true");
  for (const std::string_view key : {"rmsnorm", "post_layer_norm", "original_rope"}) {
    if (!reader.boolean(key, true)) reader.fail(fmt::format("{}: expected true, got false", key));
  }
  for (const std::string_view key :
       {"add_bias_linear", "apply_residual_connection_post_layernorm", "interleaved_qkv"}) {
    if (reader.boolean(key, false)) reader.fail(fmt::format("{}: expected false, got true", key));
  }
  if (!reader.boolean("multi_query_attention", true))
    config.num_key_value_heads = config.num_attention_heads;
}

}  // namespace

const Family& qwen_family() {
  static constexpr Family family{
      .name = "qwen",
      .model_types = kQwenTypes,
      .gguf_architecture = "qwen",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 4096,
                   .intermediate_size = 22016,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 8192},
      .aliases = kQwenAliases,
      .qkv_bias = BiasRule::kAlways,
      .read_more = read_qwen,
      .hf_names = kQwenNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& chatglm_family() {
  static constexpr Family family{
      .name = "chatglm",
      .model_types = kChatGlmTypes,
      .gguf_architecture = "chatglm",  // read as GLM-4, from which it differs only in names
      .defaults = {.vocab_size = 65024,
                   .hidden_size = 4096,
                   .intermediate_size = 13696,
                   .num_hidden_layers = 28,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 1,
                   .head_dim = 128,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.5},
      .aliases = kChatGlmAliases,
      .rope_style = RopeStyle::kInterleaved,
      .qkv_bias = BiasRule::kConfig,
      .read_more = read_chatglm,
      .hf_names = {kChatGlmEntries, kChatGlmPrefixes, kChatGlmIgnored},
  };
  return family;
}

}  // namespace quire
