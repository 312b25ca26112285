// GPT-2: learned positions, LayerNorm with bias, one fused attention projection, no gate. Its
// Hugging Face checkpoints store projections [inputs, outputs].
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kHfNames[] = {
    {TensorRole::kTokenEmbedding, "wte"},       {TensorRole::kPositionEmbedding, "wpe"},
    {TensorRole::kFinalNorm, "ln_f"},           {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "h.{}.ln_1"},      {TensorRole::kQkv, "h.{}.attn.c_attn", true},
    {TensorRole::kO, "h.{}.attn.c_proj", true}, {TensorRole::kPreMlpNorm, "h.{}.ln_2"},
    {TensorRole::kUp, "h.{}.mlp.c_fc", true},   {TensorRole::kDown, "h.{}.mlp.c_proj", true},
};
constexpr NamePrefix kHfPrefixes[] = {{"transformer.", ""}, {"", ""}};
// The causal masks in old checkpoints.
constexpr std::string_view kGpt2Ignored[] = {".attn.bias", ".attn.masked_bias"};

constexpr std::string_view kGpt2Types[] = {"gpt2"};
constexpr KeyAlias kGpt2Aliases[] = {
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"},
    {"intermediate_size", "n_inner"},
    {"hidden_act", "activation_function"},
    {"rms_norm_eps", "layer_norm_epsilon"},
};

void read_gpt2(const ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("scale_attn_weights", true)) config.attention_scale = 1.0;
  config.scale_by_inverse_layer = reader.boolean("scale_attn_by_inverse_layer_idx", false);
  if (reader.boolean("add_cross_attention", false))
    reader.fail("add_cross_attention: expected false, got true");
}

}  // namespace

const Family& gpt2_family() {
  static constexpr Family family{
      .name = "gpt2",
      .model_types = kGpt2Types,
      .gguf_architecture = "gpt2",
      .defaults = {.vocab_size = 50257,
                   .hidden_size = 768,
                   .intermediate_ratio = 4,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 1024,
                   .norm_eps = 1e-5,
                   .activation = "gelu_new",
                   .tie_word_embeddings = true},
      .aliases = kGpt2Aliases,
      .positions = PositionKind::kLearned,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_gpt2,
      .hf_names = {kHfNames, kHfPrefixes, kGpt2Ignored},
      .gguf_names = kGgufNames,
  };
  return family;
}

}  // namespace quire
