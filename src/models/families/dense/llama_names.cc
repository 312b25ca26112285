// Llama's layers in checkpoints with other names: InternLM (biases), InternLM 2 (queries, keys and
// values in one tensor, group by group), XVERSE, EXAONE 3, Orion (LayerNorms), HyperCLOVA X SEED
// (Granite's multipliers, norms of outputs), Granite with windows and sinks.
#include <cmath>

#include "models/config_fields.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kInternLmTypes[] = {"internlm"};
constexpr KeyAlias kInternLmAliases[] = {{"attention_bias", "bias"}};

// Its scaling does not change contexts of up to max_position_embeddings tokens.
void read_internlm(const ConfigReader& reader, ModelConfig&) {
  const std::optional<ConfigReader> rotary = reader.child("rotary");
  if (!rotary) return;
  for (const auto& [key, expected] : {std::pair{"base", 10000.0}, {"scaling_factor", 1.0}}) {
    const double got = rotary->positive(key, expected);
    if (got != expected) rotary->fail(fmt::format("{}: expected {}, got {}", key, expected, got));
  }
}

constexpr std::string_view kInternLm2Types[] = {"internlm2"};
constexpr KeyAlias kInternLm2Aliases[] = {{"attention_bias", "bias"}};
constexpr NameMapEntry kInternLm2Entries[] = {
    {TensorRole::kTokenEmbedding, "tok_embeddings"},
    {TensorRole::kLmHead, "output"},
    {TensorRole::kInputNorm, "layers.{}.attention_norm"},
    {TensorRole::kQkv, "layers.{}.attention.wqkv", false, QkvOrder::kPerKvHead},
    {TensorRole::kO, "layers.{}.attention.wo"},
    {TensorRole::kPreMlpNorm, "layers.{}.ffn_norm"},
    {TensorRole::kGate, "layers.{}.feed_forward.w1"},
    {TensorRole::kUp, "layers.{}.feed_forward.w3"},
    {TensorRole::kDown, "layers.{}.feed_forward.w2"},
};
constexpr NameMap kInternLm2Names{kInternLm2Entries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                  &kLlamaNames};

constexpr std::string_view kXverseTypes[] = {"xverse"};

constexpr std::string_view kOrionTypes[] = {"orion"};

constexpr std::string_view kExaoneTypes[] = {"exaone"};
constexpr KeyAlias kExaoneAliases[] = {{"num_hidden_layers", "num_layers"},
                                       {"hidden_act", "activation_function"},
                                       {"rms_norm_eps", "layer_norm_epsilon"}};
constexpr NameMapEntry kExaoneEntries[] = {
    {TensorRole::kTokenEmbedding, "wte"},
    {TensorRole::kFinalNorm, "ln_f"},
    {TensorRole::kInputNorm, "h.{}.ln_1"},
    {TensorRole::kQ, "h.{}.attn.attention.q_proj"},
    {TensorRole::kK, "h.{}.attn.attention.k_proj"},
    {TensorRole::kV, "h.{}.attn.attention.v_proj"},
    {TensorRole::kO, "h.{}.attn.attention.out_proj"},
    {TensorRole::kPreMlpNorm, "h.{}.ln_2"},
    {TensorRole::kGate, "h.{}.mlp.c_fc_0"},
    {TensorRole::kUp, "h.{}.mlp.c_fc_1"},
    {TensorRole::kDown, "h.{}.mlp.c_proj"},
};
constexpr NamePrefix kExaonePrefixes[] = {{"transformer.", ""}, {"", ""}};
// Rotary buffers of old checkpoints.
constexpr std::string_view kExaoneIgnored[] = {"rotary.inv_freq", "rotary_emb.inv_freq"};
constexpr NameMap kExaoneNames{kExaoneEntries, kExaonePrefixes, kExaoneIgnored, 0.0f, &kLlamaNames};

constexpr std::string_view kHyperClovaTypes[] = {"hyperclovax"};
constexpr NameMapEntry kHyperClovaEntries[] = {
    {TensorRole::kPostAttentionNorm, "layers.{}.post_norm1"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_norm2"},
};
constexpr NameMap kHyperClovaNames{kHyperClovaEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                   &kLlamaNames};

// logits_scaling multiplies, while Granite's divides.
void read_hyperclova(const ConfigReader& reader, ModelConfig& config) {
  const double head_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  config.embedding_multiplier = reader.positive("embedding_multiplier", 1.0);
  config.residual_multiplier = reader.positive("residual_multiplier", 1.0);
  config.attention_scale = reader.positive("attention_multiplier", head_scale);
  config.logit_multiplier = reader.positive("logits_scaling", 1.0);
  config.block.output_norms = reader.boolean("use_post_norm", true);
  // The multiplier is folded into the epsilon of norms, which would wrongly change norms of
  // outputs, too.
  if (config.block.output_norms && config.residual_multiplier != 1.0) {
    reader.fail(fmt::format("residual_multiplier: expected 1 beside use_post_norm, got {}",
                            config.residual_multiplier));
  }
}

constexpr std::string_view kGraniteTypes[] = {"granite_swa"};
constexpr KeyAlias kGraniteAliases[] = {{"logits_scaling", "logit_scale"}};
constexpr NameMapEntry kGraniteEntries[] = {
    {.role = TensorRole::kSinks, .pattern = "layers.{}.self_attn.sinks", .bare = true}};
constexpr NameMap kGraniteNames{kGraniteEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                &kLlamaNames};

}  // namespace

// Without layer_types, every fourth layer, starting with the first, sees everything. A base of 0
// means that the layer does not rotate.
void read_granite_layers(const ConfigReader& reader, ModelConfig& config) {
  read_granite_multipliers(reader, config);
  for (size_t i = 0; !reader.has("layer_types") && i < config.layer_windows.size(); i += 4)
    config.layer_windows[i] = 0;
  const std::vector<double> bases = reader.numbers("layer_rope_theta");
  if (bases.empty()) return;
  if (bases.size() != config.layer_rope.size()) {
    reader.fail(fmt::format("layer_rope_theta: expected num_hidden_layers = {} entries, got {}",
                            config.layer_rope.size(), bases.size()));
    return;
  }
  const std::optional<ConfigReader> rope = reader.child("rope_parameters");
  const double base = (rope ? *rope : reader).positive("rope_theta", 10000.0);
  for (size_t i = 0; i < bases.size(); ++i) {
    config.layer_rope[i] = bases[i] != 0.0;
    if (bases[i] != 0.0 && bases[i] != base)
      reader.fail(fmt::format("layer_rope_theta: expected 0 or {}, got {}", base, bases[i]));
  }
}

const Family& internlm_family() {
  static constexpr Family family{
      .name = "internlm",
      .model_types = kInternLmTypes,
      .gguf_architecture = "llama",  // read as Llama
      .defaults = {.vocab_size = 103168,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .attention_bias = true},
      .aliases = kInternLmAliases,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_internlm,
      .hf_names = kLlamaNames,
  };
  return family;
}

const Family& internlm2_family() {
  static constexpr Family family{
      .name = "internlm2",
      .model_types = kInternLm2Types,
      .gguf_architecture = "internlm2",
      .defaults = {.vocab_size = 103168,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .attention_bias = true},
      .aliases = kInternLm2Aliases,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kInternLm2Names,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& xverse_family() {
  static constexpr Family family{
      .name = "xverse",
      .model_types = kXverseTypes,
      .gguf_architecture = "xverse",
      .defaults = {.vocab_size = 100278,
                   .hidden_size = 5120,
                   .intermediate_size = 13824,
                   .num_hidden_layers = 40,
                   .num_attention_heads = 40,
                   .max_position_embeddings = 8192},
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& orion_family() {
  static constexpr Family family{
      .name = "orion",
      .model_types = kOrionTypes,
      .gguf_architecture = "orion",
      .defaults = {.vocab_size = 84608,
                   .hidden_size = 4096,
                   .intermediate_size = 15360,
                   .num_hidden_layers = 40,
                   .num_attention_heads = 40,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5},
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& exaone_family() {
  static constexpr Family family{
      .name = "exaone",
      .model_types = kExaoneTypes,
      .gguf_architecture = "exaone",
      .defaults = {.vocab_size = 102400,
                   .hidden_size = 2048,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5},
      .aliases = kExaoneAliases,
      .hf_names = kExaoneNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& hyperclovax_family() {
  static constexpr Family family{
      .name = "hyperclovax",
      .model_types = kHyperClovaTypes,
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_hyperclova,
      .hf_names = kHyperClovaNames,
  };
  return family;
}

const Family& granite_swa_family() {
  static constexpr Family family{
      .name = "granite_swa",
      .model_types = kGraniteTypes,
      .defaults = {.vocab_size = 100352,
                   .hidden_size = 2560,
                   .intermediate_size = 8192,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 20,
                   .num_key_value_heads = 4,
                   .max_position_embeddings = 8192,
                   .sliding_window = 128,
                   .norm_eps = 1e-5,
                   .tie_word_embeddings = true},
      .aliases = kGraniteAliases,
      .window_rule = WindowRule::kAll,
      .has_sinks = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_granite_layers,
      .hf_names = kGraniteNames,
  };
  return family;
}

}  // namespace quire
