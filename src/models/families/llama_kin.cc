// Families with Llama's tensors and small differences: Granite 3 and MiniCPM (multipliers), SmolLM3
// (layers without rope), Seed-OSS, Hunyuan (norms after the rotation), Arcee (no gate), Ernie 4.5,
// Helium, InternLM 3, CWM (windows in three of four layers), Jais 2 (LayerNorms, no gate).
#include <cmath>

#include "models/config_fields.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kGraniteTypes[] = {"granite"};
constexpr KeyAlias kGraniteAliases[] = {{"logits_scaling", "logit_scale"}};

constexpr std::string_view kMiniCpmTypes[] = {"minicpm"};

constexpr std::string_view kSmolLm3Types[] = {"smollm3"};

void read_smollm3(const ConfigReader& reader, ModelConfig& config) {
  if (reader.boolean("use_sliding_window", false) && !reader.has("layer_types"))
    reader.fail("use_sliding_window: expected layer_types beside it");
  read_rotating_layers(reader, config);
}

constexpr std::string_view kSeedOssTypes[] = {"seed_oss"};
constexpr NameMapEntry kSeedOssGgufEntries[] = {
    {TensorRole::kPreMlpNorm, "blk.{}.post_attention_norm"},
};
constexpr NameMap kSeedOssGgufNames{kSeedOssGgufEntries, kGgufPrefixes, kIgnoredTensors, 0.0f,
                                    &kGgufNames};

void read_seed_oss(const ConfigReader& reader, ModelConfig& config) {
  config.o_bias = reader.boolean("attention_out_bias", false);
}

constexpr std::string_view kHunyuanTypes[] = {"hunyuan_v1_dense"};
constexpr NameMapEntry kHunyuanEntries[] = {
    {TensorRole::kQNorm, "layers.{}.self_attn.query_layernorm"},
    {TensorRole::kKNorm, "layers.{}.self_attn.key_layernorm"},
};
constexpr NameMap kHunyuanNames{kHunyuanEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                &kLlamaNames};

constexpr std::string_view kArceeTypes[] = {"arcee"};

constexpr std::string_view kHeliumTypes[] = {"helium"};

constexpr std::string_view kInternLm3Types[] = {"internlm3"};
constexpr KeyAlias kInternLm3Aliases[] = {{"attention_bias", "qkv_bias"}, {"mlp_bias", "bias"}};

constexpr std::string_view kCwmTypes[] = {"cwm"};

// Without layer_types, every fourth layer, starting with the first, sees everything.
void read_cwm(const ConfigReader& reader, ModelConfig& config) {
  if (reader.has("layer_types")) return;
  for (size_t i = 0; i < config.layer_windows.size(); i += 4) config.layer_windows[i] = 0;
}

constexpr std::string_view kJais2Types[] = {"jais2"};
constexpr KeyAlias kJais2Aliases[] = {{"rms_norm_eps", "layer_norm_eps"}};

constexpr std::string_view kErnieTypes[] = {"ernie4_5"};
constexpr KeyAlias kErnieAliases[] = {{"attention_bias", "use_bias"}, {"mlp_bias", "use_bias"}};

}  // namespace

const Family& granite_family() {
  static constexpr Family family{
      .name = "granite",
      .model_types = kGraniteTypes,
      .gguf_architecture = "granite",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048},
      .aliases = kGraniteAliases,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_granite_multipliers,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& minicpm_family() {
  static constexpr Family family{
      .name = "minicpm",
      .model_types = kMiniCpmTypes,
      .gguf_architecture = "minicpm",
      .defaults = {.vocab_size = 122753,
                   .hidden_size = 2304,
                   .intermediate_size = 5760,
                   .num_hidden_layers = 40,
                   .num_attention_heads = 36,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .tie_word_embeddings = true},
      .read_more = read_minicpm_multipliers,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& smollm3_family() {
  static constexpr Family family{
      .name = "smollm3",
      .model_types = kSmolLm3Types,
      .gguf_architecture = "smollm3",
      .defaults = {.vocab_size = 128256,
                   .hidden_size = 2048,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 36,
                   .num_attention_heads = 16,
                   .num_key_value_heads = 4,
                   .max_position_embeddings = 32768,
                   .rope_theta = 2e6,
                   .tie_word_embeddings = true},
      .window_rule = WindowRule::kFromLayer,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_smollm3,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& seed_oss_family() {
  static constexpr Family family{
      .name = "seed_oss",
      .model_types = kSeedOssTypes,
      .gguf_architecture = "seed_oss",
      .defaults = {.vocab_size = 155136,
                   .hidden_size = 4096,
                   .intermediate_size = 27648,
                   .num_hidden_layers = 64,
                   .num_attention_heads = 80,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 524288,
                   .attention_bias = true},
      .qkv_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_seed_oss,
      .hf_names = kLlamaNames,
      .gguf_names = kSeedOssGgufNames,
  };
  return family;
}

const Family& hunyuan_family() {
  static constexpr Family family{
      .name = "hunyuan_v1_dense",
      .model_types = kHunyuanTypes,
      .gguf_architecture = "hunyuan-dense",
      .defaults = {.vocab_size = 290943,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5},
      .qk_norm = QkNorm::kHead,
      .qk_norm_after_rope = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kHunyuanNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& arcee_family() {
  static constexpr Family family{
      .name = "arcee",
      .model_types = kArceeTypes,
      .gguf_architecture = "arcee",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 2560,
                   .intermediate_size = 18432,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5,
                   .activation = "relu2"},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .gated_mlp = false,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& ernie_family() {
  static constexpr Family family{
      .name = "ernie4_5",
      .model_types = kErnieTypes,
      .gguf_architecture = "ernie4_5",
      .defaults = {.vocab_size = 103424,
                   .hidden_size = 1024,
                   .intermediate_size = 3072,
                   .num_hidden_layers = 18,
                   .num_attention_heads = 16,
                   .num_key_value_heads = 2,
                   .head_dim = 128,
                   .max_position_embeddings = 131072,
                   .norm_eps = 1e-5,
                   .rope_theta = 500000.0,
                   .tie_word_embeddings = true},
      .aliases = kErnieAliases,
      .rope_style = RopeStyle::kInterleaved,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& helium_family() {
  static constexpr Family family{
      .name = "helium",
      .model_types = kHeliumTypes,
      .defaults = {.vocab_size = 48000,
                   .hidden_size = 2560,
                   .intermediate_size = 7040,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 20,
                   .num_key_value_heads = 20,
                   .head_dim = 128,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-8,
                   .rope_theta = 100000.0},
      .rope_style = RopeStyle::kInterleaved,
      .qkv_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .hf_names = kLlamaNames,
  };
  return family;
}

const Family& internlm3_family() {
  static constexpr Family family{
      .name = "internlm3",
      .model_types = kInternLm3Types,
      .gguf_architecture = "llama",  // read as Llama
      .defaults = {.vocab_size = 128512,
                   .hidden_size = 4096,
                   .intermediate_size = 10240,
                   .num_hidden_layers = 48,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 2,
                   .head_dim = 128,
                   .max_position_embeddings = 32768,
                   .norm_eps = 1e-5},
      .aliases = kInternLm3Aliases,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .hf_names = kLlamaNames,
  };
  return family;
}

const Family& cwm_family() {
  static constexpr Family family{
      .name = "cwm",
      .model_types = kCwmTypes,
      .defaults = {.vocab_size = 128256,
                   .hidden_size = 6144,
                   .intermediate_size = 21504,
                   .num_hidden_layers = 64,
                   .num_attention_heads = 48,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 131072,
                   .sliding_window = 8192,
                   .norm_eps = 1e-5,
                   .rope_theta = 1e6},
      .window_rule = WindowRule::kAll,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_cwm,
      .hf_names = kLlamaNames,
  };
  return family;
}

const Family& jais2_family() {
  static constexpr Family family{
      .name = "jais2",
      .model_types = kJais2Types,
      .gguf_architecture = "jais2",
      .defaults = {.vocab_size = 150272,
                   .hidden_size = 3328,
                   .intermediate_size = 26624,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 26,
                   .max_position_embeddings = 8192,
                   .norm_eps = 1e-5,
                   .activation = "relu2",
                   .attention_bias = true},
      .aliases = kJais2Aliases,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
