// Phi-3 and Phi-3.5 mini: q, k, v and gate, up stored as one tensor each.
#include "models/family.h"

namespace quire {
namespace {

constexpr NameMapEntry kHfNames[] = {
    {TensorRole::kTokenEmbedding, "embed_tokens"},
    {TensorRole::kFinalNorm, "norm"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "layers.{}.input_layernorm"},
    {TensorRole::kQkv, "layers.{}.self_attn.qkv_proj"},
    {TensorRole::kO, "layers.{}.self_attn.o_proj"},
    {TensorRole::kPreMlpNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kGateUp, "layers.{}.mlp.gate_up_proj"},
    {TensorRole::kDown, "layers.{}.mlp.down_proj"},
};
constexpr NamePrefix kHfPrefixes[] = {{"model.", ""}, {"", ""}};

constexpr NameMapEntry kGgufNames[] = {
    {TensorRole::kTokenEmbedding, "token_embd"},
    {TensorRole::kFinalNorm, "output_norm"},
    {TensorRole::kLmHead, "output"},
    {TensorRole::kInputNorm, "blk.{}.attn_norm"},
    {TensorRole::kQkv, "blk.{}.attn_qkv"},
    {TensorRole::kO, "blk.{}.attn_output"},
    {TensorRole::kPreMlpNorm, "blk.{}.ffn_norm"},
    {TensorRole::kGateUp, "blk.{}.ffn_up"},
    {TensorRole::kDown, "blk.{}.ffn_down"},
};
constexpr NamePrefix kGgufPrefixes[] = {{"", ""}};

constexpr std::string_view kTypes[] = {"phi3"};

}  // namespace

const Family& phi3_family() {
  static constexpr Family family{
      .name = "phi3",
      .model_types = kTypes,
      .gguf_architecture = "phi3",
      .defaults = {.vocab_size = 32064,
                   .hidden_size = 3072,
                   .intermediate_size = 8192,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 4096,
                   .norm_eps = 1e-5},
      .window_rule = WindowRule::kAll,
      .hf_names = {kHfNames, kHfPrefixes, kIgnoredTensors},
      .gguf_names = {kGgufNames, kGgufPrefixes, kIgnoredTensors},
  };
  return family;
}

}  // namespace quire
