// OPT: learned positions whose first two rows are for padding, LayerNorms with bias, biases
// everywhere.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr NameMapEntry kEntries[] = {
    {TensorRole::kTokenEmbedding, "embed_tokens"},
    {TensorRole::kPositionEmbedding, "embed_positions"},
    {TensorRole::kFinalNorm, "final_layer_norm"},
    {TensorRole::kLmHead, "lm_head"},
    {TensorRole::kInputNorm, "layers.{}.self_attn_layer_norm"},
    {TensorRole::kQ, "layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "layers.{}.self_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "layers.{}.final_layer_norm"},
    {TensorRole::kUp, "layers.{}.fc1"},
    {TensorRole::kDown, "layers.{}.fc2"},
};
constexpr NamePrefix kPrefixes[] = {{"model.decoder.", ""}, {"decoder.", ""}};

constexpr std::string_view kTypes[] = {"opt"};
constexpr KeyAlias kAliases[] = {{"intermediate_size", "ffn_dim"},
                                 {"hidden_act", "activation_function"}};

void read_opt(const ConfigReader& reader, ModelConfig& config) {
  for (const std::string_view key :
       {"do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"}) {
    if (!reader.boolean(key, true)) reader.fail(fmt::format("{}: expected true, got false", key));
  }
  if (reader.integer("word_embed_proj_dim", {1, 1 << 20}, config.hidden_size) != config.hidden_size)
    reader.fail(fmt::format("word_embed_proj_dim: expected hidden_size {}", config.hidden_size));
}

}  // namespace

const Family& opt_family() {
  static constexpr Family family{
      .name = "opt",
      .model_types = kTypes,
      .defaults = {.vocab_size = 50272,
                   .hidden_size = 768,
                   .intermediate_size = 3072,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .activation = "relu",
                   .tie_word_embeddings = true},
      .aliases = kAliases,
      .positions = PositionKind::kLearned,
      .first_position_row = 2,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_opt,
      .hf_names = {kEntries, kPrefixes},
  };
  return family;
}

}  // namespace quire
