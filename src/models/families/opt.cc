// OPT and BioGPT: learned positions whose first two rows are for padding, LayerNorms with bias,
// biases everywhere.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr NameMapEntry kOptEntries[] = {
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
constexpr NamePrefix kOptPrefixes[] = {{"model.decoder.", ""}, {"decoder.", ""}};
constexpr NameMap kOptNames{kOptEntries, kOptPrefixes};

constexpr std::string_view kOptTypes[] = {"opt"};
constexpr KeyAlias kOptAliases[] = {{"intermediate_size", "ffn_dim"},
                                    {"hidden_act", "activation_function"}};

void read_opt(const ConfigReader& reader, ModelConfig& config) {
  for (const std::string_view key :
       {"do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"}) {
    if (!reader.boolean(key, true)) reader.fail(fmt::format("{}: expected true, got false", key));
  }
  if (reader.integer("word_embed_proj_dim", {1, 1 << 20}, config.hidden_size) != config.hidden_size)
    reader.fail(fmt::format("word_embed_proj_dim: expected hidden_size {}", config.hidden_size));
}

constexpr NameMapEntry kBioEntries[] = {
    {TensorRole::kFinalNorm, "layer_norm"},
    {TensorRole::kLmHead, "output_projection"},
};
constexpr NamePrefix kBioPrefixes[] = {{"biogpt.", ""}, {"", ""}};
constexpr NameMap kBioNames{kBioEntries, kBioPrefixes, {}, 0.0f, &kOptNames};

constexpr std::string_view kBioTypes[] = {"biogpt"};

// Its LayerNorms have a fixed epsilon, whatever layer_norm_eps says.
void read_biogpt(const ConfigReader& reader, ModelConfig& config) {
  if (reader.boolean("scale_embedding", true))
    config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
}

}  // namespace

const Family& opt_family() {
  static constexpr Family family{
      .name = "opt",
      .model_types = kOptTypes,
      .defaults = {.vocab_size = 50272,
                   .hidden_size = 768,
                   .intermediate_size = 3072,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-5,
                   .activation = "relu",
                   .tie_word_embeddings = true},
      .aliases = kOptAliases,
      .positions = PositionKind::kLearned,
      .first_position_row = 2,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_opt,
      .hf_names = kOptNames,
  };
  return family;
}

const Family& biogpt_family() {
  static constexpr Family family{
      .name = "biogpt",
      .model_types = kBioTypes,
      .defaults = {.vocab_size = 42384,
                   .hidden_size = 1024,
                   .intermediate_size = 4096,
                   .num_hidden_layers = 24,
                   .num_attention_heads = 16,
                   .max_position_embeddings = 1024,
                   .norm_eps = 1e-5,
                   .activation = "gelu",
                   .tie_word_embeddings = true},
      .positions = PositionKind::kLearned,
      .first_position_row = 2,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_biogpt,
      .hf_names = kBioNames,
  };
  return family;
}

}  // namespace quire
