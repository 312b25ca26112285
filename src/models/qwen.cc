// Qwen2 and 2.5 (biases on q, k and v) and Qwen3 dense (norms on q and k instead).
#include "models/family.h"

namespace quire {
namespace {

constexpr NameMapEntry kHfNames[] = {
    {TensorRole::kTokenEmbedding, "embed_tokens"},
    {TensorRole::kFinalNorm, "norm"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "layers.{}.input_layernorm"},
    {TensorRole::kQ, "layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "layers.{}.self_attn.o_proj"},
    {TensorRole::kQNorm, "layers.{}.self_attn.q_norm"},
    {TensorRole::kKNorm, "layers.{}.self_attn.k_norm"},
    {TensorRole::kPreMlpNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kGate, "layers.{}.mlp.gate_proj"},
    {TensorRole::kUp, "layers.{}.mlp.up_proj"},
    {TensorRole::kDown, "layers.{}.mlp.down_proj"},
};
// The last two: the text model inside a multimodal checkpoint, as older and newer tools save it.
constexpr NamePrefix kHfPrefixes[] = {{"model.", ""},
                                      {"", ""},
                                      {"language_model.model.", "language_model."},
                                      {"model.language_model.", ""}};

constexpr NameMapEntry kGgufNames[] = {
    {TensorRole::kTokenEmbedding, "token_embd"},
    {TensorRole::kFinalNorm, "output_norm"},
    {TensorRole::kLmHead, "output"},
    {TensorRole::kInputNorm, "blk.{}.attn_norm"},
    {TensorRole::kQ, "blk.{}.attn_q"},
    {TensorRole::kK, "blk.{}.attn_k"},
    {TensorRole::kV, "blk.{}.attn_v"},
    {TensorRole::kO, "blk.{}.attn_output"},
    {TensorRole::kQNorm, "blk.{}.attn_q_norm"},
    {TensorRole::kKNorm, "blk.{}.attn_k_norm"},
    {TensorRole::kPreMlpNorm, "blk.{}.ffn_norm"},
    {TensorRole::kGate, "blk.{}.ffn_gate"},
    {TensorRole::kUp, "blk.{}.ffn_up"},
    {TensorRole::kDown, "blk.{}.ffn_down"},
};
constexpr NamePrefix kGgufPrefixes[] = {{"", ""}};

constexpr std::string_view kQwen2Types[] = {"qwen2"};
constexpr std::string_view kQwen3Types[] = {"qwen3"};

constexpr NameMap kHf{kHfNames, kHfPrefixes, kIgnoredTensors};
constexpr NameMap kGguf{kGgufNames, kGgufPrefixes, kIgnoredTensors};

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
      .hf_names = kHf,
      .gguf_names = kGguf,
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
      .qk_norm = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .hf_names = kHf,
      .gguf_names = kGguf,
  };
  return family;
}

}  // namespace quire
