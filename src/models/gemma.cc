// Gemma 2 (soft caps) and Gemma 3 text (norms on q and k, its own rope for sliding layers). Norms
// multiply by 1 + w.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"

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
    {TensorRole::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {TensorRole::kPreMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {TensorRole::kGate, "layers.{}.mlp.gate_proj"},
    {TensorRole::kUp, "layers.{}.mlp.up_proj"},
    {TensorRole::kDown, "layers.{}.mlp.down_proj"},
    {TensorRole::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
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
    {TensorRole::kPostAttentionNorm, "blk.{}.post_attention_norm"},
    {TensorRole::kPreMlpNorm, "blk.{}.ffn_norm"},
    {TensorRole::kGate, "blk.{}.ffn_gate"},
    {TensorRole::kUp, "blk.{}.ffn_up"},
    {TensorRole::kDown, "blk.{}.ffn_down"},
    {TensorRole::kPostMlpNorm, "blk.{}.post_ffw_norm"},
};
constexpr NamePrefix kGgufPrefixes[] = {{"", ""}};
constexpr std::string_view kIgnored[] = {"rotary_emb.inv_freq", "rope_freqs.", "vision_tower.",
                                         "multi_modal_projector."};

constexpr std::string_view kGemma2Types[] = {"gemma2"};
constexpr std::string_view kGemma3Types[] = {"gemma3_text", "gemma3"};
constexpr KeyAlias kAliases[] = {{"hidden_act", "hidden_activation"}};

constexpr NameMap kHf{kHfNames, kHfPrefixes, kIgnored, 1.0f};
constexpr NameMap kGguf{kGgufNames, kGgufPrefixes, kIgnored, 0.0f};  // GGUF has the 1 added

void read_gemma2(const ConfigReader& reader, ModelConfig& config) {
  config.query_pre_attn_scalar = reader.positive("query_pre_attn_scalar", 256.0);
  // Present and null means no cap; absent means the family's own.
  config.attn_logit_softcapping = reader.positive_or_null("attn_logit_softcapping", 50.0);
  config.final_logit_softcapping = reader.positive_or_null("final_logit_softcapping", 30.0);
}

void read_gemma3(const ConfigReader& reader, ModelConfig& config) {
  config.query_pre_attn_scalar = reader.positive("query_pre_attn_scalar", 256.0);
  config.final_logit_softcapping = reader.optional_positive("final_logit_softcapping");
  if (reader.boolean("use_bidirectional_attention", false)) {
    reader.fail(
        "use_bidirectional_attention: expected false, got true: this is an embedding model");
  }
}

}  // namespace

const Family& gemma2_family() {
  static constexpr Family family{
      .name = "gemma2",
      .model_types = kGemma2Types,
      .gguf_architecture = "gemma2",
      .defaults = {.vocab_size = 256000,
                   .hidden_size = 2304,
                   .intermediate_size = 9216,
                   .num_hidden_layers = 26,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 4,
                   .head_dim = 256,
                   .max_position_embeddings = 8192,
                   .sliding_window = 4096,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 2,
      .sandwich_norms = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .scaled_embedding = true,
      .read_more = read_gemma2,
      .hf_names = kHf,
      .gguf_names = kGguf,
  };
  return family;
}

const Family& gemma3_family() {
  static constexpr Family family{
      .name = "gemma3_text",
      .model_types = kGemma3Types,
      .gguf_architecture = "gemma3",
      .defaults = {.vocab_size = 262208,
                   .hidden_size = 2304,
                   .intermediate_size = 9216,
                   .num_hidden_layers = 26,
                   .num_attention_heads = 8,
                   .num_key_value_heads = 4,
                   .head_dim = 256,
                   .max_position_embeddings = 131072,
                   .sliding_window = 4096,
                   .rope_theta = 1e6,
                   .activation = "gelu_pytorch_tanh",
                   .tie_word_embeddings = true},
      .aliases = kAliases,
      .window_rule = WindowRule::kPattern,
      .window_pattern = 6,
      .has_local_rope = true,
      .sandwich_norms = true,
      .qk_norm = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .scaled_embedding = true,
      .read_more = read_gemma3,
      .hf_names = kHf,
      .gguf_names = kGguf,
  };
  return family;
}

}  // namespace quire
