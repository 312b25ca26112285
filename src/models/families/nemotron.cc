// Nemotron (dense): LayerNorms that multiply by 1 + w, an MLP of squared ReLU without a gate, rope
// over half of a head.
#include "models/family.h"
#include "models/standard_names.h"

namespace quire {
namespace {

// GGUF files store the norms' weights with the 1 added.
constexpr NameMap kNemotronNames{kLlamaNameEntries, kLlamaPrefixes, kIgnoredTensors, 1.0f};

constexpr std::string_view kNemotronTypes[] = {"nemotron"};
constexpr KeyAlias kNemotronAliases[] = {{"rms_norm_eps", "norm_eps"}};

}  // namespace

const Family& nemotron_family() {
  static constexpr Family family{
      .name = "nemotron",
      .model_types = kNemotronTypes,
      .gguf_architecture = "nemotron",
      .defaults = {.vocab_size = 256000,
                   .hidden_size = 6144,
                   .intermediate_size = 24576,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 48,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.5,
                   .activation = "relu2"},
      .aliases = kNemotronAliases,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .gated_mlp = false,
      .hf_names = kNemotronNames,
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
