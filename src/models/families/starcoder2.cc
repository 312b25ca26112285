// StarCoder 2: LayerNorms with bias, biases everywhere, an MLP without a gate.
#include "models/family.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kStarcoder2Entries[] = {
    {TensorRole::kUp, "layers.{}.mlp.c_fc"},
    {TensorRole::kDown, "layers.{}.mlp.c_proj"},
};
constexpr NameMap kStarcoder2Names{kStarcoder2Entries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                   &kLlamaNames};

constexpr std::string_view kStarcoder2Types[] = {"starcoder2"};
constexpr KeyAlias kStarcoder2Aliases[] = {
    {"rms_norm_eps", "norm_epsilon"}, {"attention_bias", "use_bias"}, {"mlp_bias", "use_bias"}};

}  // namespace

const Family& starcoder2_family() {
  static constexpr Family family{
      .name = "starcoder2",
      .model_types = kStarcoder2Types,
      .gguf_architecture = "starcoder2",
      .defaults = {.vocab_size = 49152,
                   .hidden_size = 3072,
                   .intermediate_size = 12288,
                   .num_hidden_layers = 30,
                   .num_attention_heads = 24,
                   .num_key_value_heads = 2,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true,
                   .attention_bias = true},
      .aliases = kStarcoder2Aliases,
      .window_rule = WindowRule::kAll,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .gated_mlp = false,
      .hf_names = kStarcoder2Names,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
