// GPT-2's layers with one KV head (StarCoder, SantaCoder: gpt_bigcode), with windows in every
// second layer and unscaled scores (GPT-Neo), or with norms after each sum (the first GPT).
#include <string>
#include <vector>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NamePrefix kGptKinPrefixes[] = {{"transformer.", ""}, {"", ""}};
// The causal masks in old checkpoints.
constexpr std::string_view kGptKinIgnored[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                               ".attention.masked_bias"};

constexpr NameMapEntry kBigCodeEntries[] = {
    {TensorRole::kTokenEmbedding, "wte"},  {TensorRole::kPositionEmbedding, "wpe"},
    {TensorRole::kFinalNorm, "ln_f"},      {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "h.{}.ln_1"}, {TensorRole::kQkv, "h.{}.attn.c_attn"},
    {TensorRole::kO, "h.{}.attn.c_proj"},  {TensorRole::kPreMlpNorm, "h.{}.ln_2"},
    {TensorRole::kUp, "h.{}.mlp.c_fc"},    {TensorRole::kDown, "h.{}.mlp.c_proj"},
};
constexpr NameMap kBigCodeNames{kBigCodeEntries, kGptKinPrefixes, kGptKinIgnored};
constexpr NameMapEntry kManyHeadsEntries[] = {
    {TensorRole::kQkv, "h.{}.attn.c_attn", false, QkvOrder::kPerKvHead}};
constexpr NameMap kManyHeadsNames{kManyHeadsEntries, kGptKinPrefixes, kGptKinIgnored, 0.0f,
                                  &kBigCodeNames};

constexpr std::string_view kBigCodeTypes[] = {"gpt_bigcode"};
constexpr KeyAlias kBigCodeAliases[] = {
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"},
    {"intermediate_size", "n_inner"},
    {"hidden_act", "activation_function"},
    {"rms_norm_eps", "layer_norm_epsilon"},
};

void read_big_code(const ConfigReader& reader, ModelConfig& config) {
  const bool multi_query = reader.boolean("multi_query", true);
  config.num_key_value_heads = multi_query ? 1 : config.num_attention_heads;
  if (!multi_query) config.names = kManyHeadsNames;
  if (!reader.boolean("scale_attn_weights", true)) config.attention_scale = 1.0;
  if (reader.boolean("add_cross_attention", false))
    reader.fail("add_cross_attention: expected false, got true");
}

constexpr NameMapEntry kNeoEntries[] = {
    {TensorRole::kQ, "h.{}.attn.attention.q_proj"},
    {TensorRole::kK, "h.{}.attn.attention.k_proj"},
    {TensorRole::kV, "h.{}.attn.attention.v_proj"},
    {TensorRole::kO, "h.{}.attn.attention.out_proj"},
};
constexpr NameMap kNeoNames{kNeoEntries, kGptKinPrefixes, kGptKinIgnored, 0.0f, &kBigCodeNames};

constexpr std::string_view kNeoTypes[] = {"gpt_neo"};
constexpr KeyAlias kNeoAliases[] = {
    {"num_hidden_layers", "num_layers"},    {"num_attention_heads", "num_heads"},
    {"sliding_window", "window_size"},      {"hidden_act", "activation_function"},
    {"rms_norm_eps", "layer_norm_epsilon"},
};

// Configurations repeat the same as runs under attention_types, which is not read.
void read_neo(const ConfigReader& reader, ModelConfig& config) {
  config.attention_scale = 1.0;
  const std::vector<std::string> types = reader.strings("attention_layers");
  if (types.empty() && reader.has("attention_types"))
    reader.fail("attention_layers: expected a list beside attention_types, got nothing");
  if (!types.empty() && types.size() != config.layer_windows.size()) {
    reader.fail(fmt::format("attention_layers: expected num_layers = {} entries, got {}",
                            config.layer_windows.size(), types.size()));
    return;
  }
  for (size_t i = 0; i < config.layer_windows.size(); ++i) {
    const std::string_view otherwise = i % 2 == 0 ? "global" : "local";
    const std::string_view type = types.empty() ? otherwise : types[i];
    if (type != "global" && type != "local")
      reader.fail(fmt::format("attention_layers: expected global or local, got {}", type));
    if (type == "global") config.layer_windows[i] = 0;
  }
}

constexpr std::string_view kFirstTypes[] = {"openai-gpt"};
constexpr NameMapEntry kFirstEntries[] = {
    {TensorRole::kTokenEmbedding, "tokens_embed"},
    {TensorRole::kPositionEmbedding, "positions_embed"},
    {TensorRole::kQkv, "h.{}.attn.c_attn", true},
    {TensorRole::kO, "h.{}.attn.c_proj", true},
    {TensorRole::kPostAttentionNorm, "h.{}.ln_1"},
    {TensorRole::kUp, "h.{}.mlp.c_fc", true},
    {TensorRole::kDown, "h.{}.mlp.c_proj", true},
    {TensorRole::kPostMlpNorm, "h.{}.ln_2"},
};
constexpr NameMap kFirstNames{kFirstEntries, kGptKinPrefixes, kGptKinIgnored, 0.0f, &kBigCodeNames};
constexpr KeyAlias kFirstAliases[] = {
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"},
    {"rms_norm_eps", "layer_norm_epsilon"},
};

// Its gelu is the tanh approximation.
void read_first(const ConfigReader& reader, ModelConfig& config) {
  const std::string name = reader.string("afn", "gelu");
  if (name == "silu" || name == "swish") {
    config.activation = Activation::kSilu;
  } else if (name == "relu") {
    config.activation = Activation::kRelu;
  } else if (name != "gelu") {
    reader.fail(fmt::format("afn: expected gelu, relu or silu, got {}", name));
  }
}

}  // namespace

const Family& openai_gpt_family() {
  static constexpr Family family{
      .name = "openai-gpt",
      .model_types = kFirstTypes,
      .defaults = {.vocab_size = 40478,
                   .hidden_size = 768,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 512,
                   .norm_eps = 1e-5,
                   .activation = "gelu_new",
                   .tie_word_embeddings = true},
      .aliases = kFirstAliases,
      .positions = PositionKind::kLearned,
      .block = {.norm = NormKind::kLayer,
                .norm_bias = true,
                .input_norms = false,
                .final_norm = false,
                .residual = ResidualStyle::kNormOfSum},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_first,
      .hf_names = kFirstNames,
  };
  return family;
}

const Family& gpt_bigcode_family() {
  static constexpr Family family{
      .name = "gpt_bigcode",
      .model_types = kBigCodeTypes,
      .gguf_architecture = "starcoder",
      .defaults = {.vocab_size = 50257,
                   .hidden_size = 768,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 1024,
                   .norm_eps = 1e-5,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kBigCodeAliases,
      .positions = PositionKind::kLearned,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_big_code,
      .hf_names = kBigCodeNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& gpt_neo_family() {
  static constexpr Family family{
      .name = "gpt_neo",
      .model_types = kNeoTypes,
      .defaults = {.vocab_size = 50257,
                   .hidden_size = 2048,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 16,
                   .max_position_embeddings = 2048,
                   .sliding_window = 256,
                   .norm_eps = 1e-5,
                   .activation = "gelu_new",
                   .tie_word_embeddings = true},
      .aliases = kNeoAliases,
      .window_rule = WindowRule::kAll,
      .positions = PositionKind::kLearned,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_neo,
      .hf_names = kNeoNames,
  };
  return family;
}

}  // namespace quire
