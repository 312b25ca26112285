// Llama 2 and 3, and what shares its layout on disk: Mistral.
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
    {TensorRole::kPreMlpNorm, "blk.{}.ffn_norm"},
    {TensorRole::kGate, "blk.{}.ffn_gate"},
    {TensorRole::kUp, "blk.{}.ffn_up"},
    {TensorRole::kDown, "blk.{}.ffn_down"},
};
constexpr NamePrefix kGgufPrefixes[] = {{"", ""}};

constexpr std::string_view kLlamaTypes[] = {"llama"};
constexpr std::string_view kMistralTypes[] = {"mistral"};

constexpr NameMap kHf{kHfNames, kHfPrefixes, kIgnoredTensors};
constexpr NameMap kGguf{kGgufNames, kGgufPrefixes, kIgnoredTensors};

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
      .hf_names = kHf,
      .gguf_names = kGguf,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

const Family& mistral_family() {
  static constexpr Family family{
      .name = "mistral",
      .model_types = kMistralTypes,
      .gguf_architecture = "llama",  // with a window
      .defaults = {.vocab_size = 32000,
                   .hidden_size = 4096,
                   .intermediate_size = 14336,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 131072,
                   .sliding_window = 4096},
      .window_rule = WindowRule::kAll,
      .hf_names = kHf,
      .gguf_names = kGguf,
      .gguf_rope_style = RopeStyle::kInterleaved,
  };
  return family;
}

}  // namespace quire
