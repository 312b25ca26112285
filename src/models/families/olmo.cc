// OLMo (LayerNorms without weights), and models with norms only of the outputs of attention and
// MLP: OLMo 2 and 3 (queries and keys normed over all heads), FlexOlmo (experts instead of the
// MLP), EXAONE 4 (normed per head; in models with windows, layers without one do not rotate).
#include "models/config_reader.h"
#include "models/expert_names.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

constexpr NameMapEntry kOlmo2Entries[] = {
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
};
constexpr NameMap kOlmo2Names{kOlmo2Entries, kLlamaPrefixes, kIgnoredTensors, 0.0f, &kLlamaNames};

constexpr BlockStyle kOlmo2Block{.input_norms = false, .output_norms = true};

constexpr std::string_view kOlmoTypes[] = {"olmo"};
constexpr NameMapEntry kOlmoEntries[] = {
    {.role = TensorRole::kInputNorm, .pattern = "", .constant = 1.0f},
    {.role = TensorRole::kPreMlpNorm, .pattern = "", .constant = 1.0f},
    {.role = TensorRole::kFinalNorm, .pattern = "", .constant = 1.0f},
};
constexpr NameMap kOlmoNames{kOlmoEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f, &kLlamaNames};
constexpr NameMap kGgufOlmoNames{kOlmoEntries, kGgufPrefixes, kIgnoredTensors, 0.0f, &kGgufNames};

void read_olmo(const ConfigReader& reader, ModelConfig& config) {
  config.qkv_clip = reader.optional_positive("clip_qkv").value_or(0.0);
}

constexpr std::string_view kFlexTypes[] = {"flex_olmo"};
constexpr NameMap kFlexNames{kOlmo2Entries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                             &kMlpExpertNames};
constexpr ExpertRules kFlexExperts{
    .router = {.num_experts = 7, .experts_per_token = 5},
    .normalizes = false,
};

constexpr std::string_view kOlmo2Types[] = {"olmo2"};
constexpr std::string_view kOlmo3Types[] = {"olmo3"};

bool has_window(const GgufFile& file) {
  const GgufValue* window = file.find("olmo2.attention.sliding_window");
  return window != nullptr && window->as_int().value_or(0) > 0;
}

constexpr std::string_view kExaoneTypes[] = {"exaone4"};

void read_exaone(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.has("sliding_window")) return;
  for (size_t i = 0; i < config.layer_rope.size(); ++i)
    config.layer_rope[i] = config.layer_windows[i] > 0;
}

}  // namespace

const Family& olmo_family() {
  static constexpr Family family{
      .name = "olmo",
      .model_types = kOlmoTypes,
      .gguf_architecture = "olmo",
      .defaults = {.vocab_size = 50304,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5},
      .block = {.norm = NormKind::kLayer},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .read_more = read_olmo,
      .hf_names = kOlmoNames,
      .gguf_names = kGgufOlmoNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& flex_olmo_family() {
  static constexpr Family family{
      .name = "flex_olmo",
      .model_types = kFlexTypes,
      .defaults = {.vocab_size = 100352,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 4096,
                   .rope_theta = 500000.0},
      .experts = &kFlexExperts,
      .block = kOlmo2Block,
      .qk_norm = QkNorm::kAllHeads,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kFlexNames,
  };
  return family;
}

const Family& olmo2_family() {
  static constexpr Family family{
      .name = "olmo2",
      .model_types = kOlmo2Types,
      .gguf_architecture = "olmo2",
      .defaults = {.vocab_size = 50304,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5},
      .block = kOlmo2Block,
      .qk_norm = QkNorm::kAllHeads,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kOlmo2Names,
      .gguf_names = kGgufNames,
  };
  return family;
}

// Layers with a window rotate without the scaling of the full ones.
const Family& olmo3_family() {
  static constexpr Family family{
      .name = "olmo3",
      .model_types = kOlmo3Types,
      .gguf_architecture = "olmo2",
      .defaults = {.vocab_size = 50304,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .sliding_window = 4096,
                   .norm_eps = 1e-5,
                   .rope_theta = 500000.0,
                   .local_rope_theta = 500000.0},
      .window_rule = WindowRule::kPattern,
      .window_pattern = 4,
      .has_local_rope = true,
      .block = kOlmo2Block,
      .qk_norm = QkNorm::kAllHeads,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kOlmo2Names,
      .gguf_names = kGgufNames,
      .owns_gguf = has_window,
  };
  return family;
}

const Family& exaone4_family() {
  static constexpr Family family{
      .name = "exaone4",
      .model_types = kExaoneTypes,
      .gguf_architecture = "exaone4",
      .defaults = {.vocab_size = 102400,
                   .hidden_size = 4096,
                   .intermediate_size = 16384,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .max_position_embeddings = 2048,
                   .sliding_window = 4096,
                   .norm_eps = 1e-5},
      .window_rule = WindowRule::kPattern,
      .window_pattern = 4,
      .block = kOlmo2Block,
      .qk_norm = QkNorm::kHead,
      .read_more = read_exaone,
      .hf_names = kOlmo2Names,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
