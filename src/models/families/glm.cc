// GLM-4: rope on pairs over half of a head, gate and up in one tensor; glm4 (0414 and later) also
// has norms of the outputs of attention and MLP.
#include "models/family.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kGlmEntries[] = {
    {TensorRole::kGateUp, "layers.{}.mlp.gate_up_proj"},
};
constexpr NameMap kGlmNames{kGlmEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f, &kLlamaNames};
constexpr NameMapEntry kGlm4Entries[] = {
    {TensorRole::kPostAttentionNorm, "layers.{}.post_self_attn_layernorm"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
};
constexpr NameMap kGlm4Names{kGlm4Entries, kLlamaPrefixes, kIgnoredTensors, 0.0f, &kGlmNames};

constexpr std::string_view kGlmTypes[] = {"glm"};
constexpr std::string_view kGlm4Types[] = {"glm4"};

constexpr FamilyDefaults kDefaults{.vocab_size = 151552,
                                   .hidden_size = 4096,
                                   .intermediate_size = 13696,
                                   .num_hidden_layers = 40,
                                   .num_attention_heads = 32,
                                   .num_key_value_heads = 2,
                                   .head_dim = 128,
                                   .max_position_embeddings = 131072,
                                   .norm_eps = 1.5625e-7,
                                   .partial_rotary_factor = 0.5,
                                   .attention_bias = true};

}  // namespace

const Family& glm_family() {
  static constexpr Family family{
      .name = "glm",
      .model_types = kGlmTypes,
      .gguf_architecture = "chatglm",
      .defaults = kDefaults,
      .rope_style = RopeStyle::kInterleaved,
      .qkv_bias = BiasRule::kConfig,
      .hf_names = kGlmNames,
      .gguf_names = kGgufGateUpNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

const Family& glm4_family() {
  static constexpr Family family{
      .name = "glm4",
      .model_types = kGlm4Types,
      .gguf_architecture = "glm4",
      .defaults = kDefaults,
      .rope_style = RopeStyle::kInterleaved,
      .block = {.output_norms = true},
      .qkv_bias = BiasRule::kConfig,
      .hf_names = kGlm4Names,
      .gguf_names = kGgufGateUpNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

}  // namespace quire
