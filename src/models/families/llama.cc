// Llama 2 and 3, and families with the same tensors: Mistral and Ministral 3 (queries scaled by
// their position).
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

// The types after the first one have Llama's layers and names.
constexpr std::string_view kLlamaTypes[] = {"llama", "iquestcoder", "aquila"};
constexpr std::string_view kMistralTypes[] = {"mistral", "ministral"};

constexpr std::string_view kMinistral3Types[] = {"ministral3"};

void read_llama(const ConfigReader& reader, ModelConfig&) {
  if (reader.has("clip_qkv")) reader.fail("clip_qkv: expected null, got a number");
  if (reader.boolean("use_sliding_window", false) && reader.has("sliding_window"))
    reader.fail("use_sliding_window: expected false, got true");
}

// Reads from rope_parameters; in GGUF files the key is beside the others.
void read_ministral3(const ConfigReader& reader, ModelConfig& config) {
  const std::optional<ConfigReader> rope = reader.child("rope_parameters");
  const std::optional<double> beta =
      (rope ? *rope : reader).optional_positive("llama_4_scaling_beta");
  if (!beta) return;
  const std::optional<ConfigReader> scaling = rope ? rope : reader.child("rope_scaling");
  config.query_scale =
      QueryScale{.beta = *beta,
                 .span = (scaling ? *scaling : reader)
                             .integer("original_max_position_embeddings", {1, 1 << 30},
                                      config.max_position_embeddings)};
}

bool has_window(const GgufFile& file) {
  const GgufValue* window = file.find("llama.attention.sliding_window");
  return window != nullptr && window->as_int().value_or(0) > 0;
}

}  // namespace

const Family& llama_family() {
  static constexpr Family family{
      .name = "llama",
      .model_types = kLlamaTypes,
      .gguf_architecture = "llama",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_llama,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& mistral_family() {
  static constexpr Family family{
      .name = "mistral",
      .model_types = kMistralTypes,
      .gguf_architecture = "llama",
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 131072,
                   .sliding_window = 4096},
      .window_rule = WindowRule::kAll,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
      .owns_gguf = has_window,
  };
  return family;
}

const Family& ministral3_family() {
  static constexpr Family family{
      .name = "ministral3",
      .model_types = kMinistral3Types,
      .gguf_architecture = "mistral3",
      .defaults = {.vocab_size = 131072,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 34,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .head_dim = 128,
                   .max_position_embeddings = 262144,
                   .norm_eps = 1e-5,
                   .rope_theta = 1e6},
      .window_rule = WindowRule::kAll,
      .read_more = read_ministral3,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

}  // namespace quire
