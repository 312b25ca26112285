// Phi-1, 1.5 and 2: one LayerNorm, attention and MLP in parallel, biases everywhere, also in the
// head.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kPhiEntries[] = {
    {TensorRole::kFinalNorm, "final_layernorm"},
    {TensorRole::kO, "layers.{}.self_attn.dense"},
    {TensorRole::kUp, "layers.{}.mlp.fc1"},
    {TensorRole::kDown, "layers.{}.mlp.fc2"},
};
constexpr NameMap kPhiNames{kPhiEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f, &kLlamaNames};

constexpr std::string_view kPhiTypes[] = {"phi"};
constexpr KeyAlias kPhiAliases[] = {{"rms_norm_eps", "layer_norm_eps"}};

void read_phi(const ConfigReader& reader, ModelConfig&) {
  if (reader.boolean("qk_layernorm", false)) reader.fail("qk_layernorm: expected false, got true");
}

}  // namespace

const Family& phi_family() {
  static constexpr Family family{
      .name = "phi",
      .model_types = kPhiTypes,
      .gguf_architecture = "phi2",
      .defaults = {.vocab_size = 51200,
                   .hidden_size = 2048,
                   .intermediate_size = 8192,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.5,
                   .activation = "gelu_new"},
      .aliases = kPhiAliases,
      .block = {.norm = NormKind::kLayer,
                .norm_bias = true,
                .residual = ResidualStyle::kParallelOneNorm},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .head_bias = true,
      .gated_mlp = false,
      .read_more = read_phi,
      .hf_names = kPhiNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
