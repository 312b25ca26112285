// Apertus: an MLP without a gate whose activation, xIELU, has two parameters per layer.
#include "models/family.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kApertusEntries[] = {
    {TensorRole::kInputNorm, "layers.{}.attention_layernorm"},
    {TensorRole::kPreMlpNorm, "layers.{}.feedforward_layernorm"},
    {.role = TensorRole::kXieluP, .pattern = "layers.{}.mlp.act_fn.alpha_p", .bare = true},
    {.role = TensorRole::kXieluN, .pattern = "layers.{}.mlp.act_fn.alpha_n", .bare = true},
};
// Buffers with the constants of the activation.
constexpr std::string_view kApertusIgnored[] = {"rotary_emb.inv_freq", "act_fn.beta", "act_fn.eps"};
constexpr NameMap kApertusNames{kApertusEntries, kLlamaPrefixes, kApertusIgnored, 0.0f,
                                &kLlamaNames};

constexpr std::string_view kApertusTypes[] = {"apertus"};

}  // namespace

// Apertus's GGUF files, which store the activation's parameters in their metadata, are not
// supported.
const Family& apertus_family() {
  static constexpr Family family{
      .name = "apertus",
      .model_types = kApertusTypes,
      .defaults = {.vocab_size = 131072,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 65536,
                   .norm_eps = 1e-5,
                   .rope_theta = 12e6,
                   .activation = "xielu"},
      .qk_norm = QkNorm::kHead,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .gated_mlp = false,
      .hf_names = kApertusNames,
  };
  return family;
}

}  // namespace quire
