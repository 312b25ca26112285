// Qwen2 and 2.5 (biases on q, k and v) and Qwen3 dense (norms on q and k instead).
#include "models/family.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kQwen2Types[] = {"qwen2"};
constexpr std::string_view kQwen3Types[] = {"qwen3"};

}  // namespace

const Family& qwen2_family() {
  static constexpr Family family{
      .name = "qwen2",
      .model_types = kQwen2Types,
      .gguf_architecture = "qwen2",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 4096,
                   .intermediate_size = 22016,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .max_position_embeddings = 32768,
                   .sliding_window = 4096},
      .window_rule = WindowRule::kFromLayer,
      .qkv_bias = BiasRule::kAlways,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

const Family& qwen3_family() {
  static constexpr Family family{
      .name = "qwen3",
      .model_types = kQwen3Types,
      .gguf_architecture = "qwen3",
      .defaults = {.vocab_size = 151936,
                   .hidden_size = 4096,
                   .intermediate_size = 22016,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 32,
                   .head_dim = 128,
                   .max_position_embeddings = 32768,
                   .sliding_window = 4096},
      .window_rule = WindowRule::kFromLayer,
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kLlamaNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
