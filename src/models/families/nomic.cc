// Encoders with BERT's order of norms: NomicBERT has rope, a gate in its MLP and no biases;
// DistilBERT has no token types.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr BlockStyle kNomicBlock{.norm = NormKind::kLayer,
                                 .norm_bias = true,
                                 .input_norms = false,
                                 .embedding_norm = true,
                                 .final_norm = false,
                                 .residual = ResidualStyle::kNormOfSum};

constexpr NameMapEntry kNomicEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings.word_embeddings"},
    {TensorRole::kTokenTypeEmbedding, "embeddings.token_type_embeddings"},
    {TensorRole::kEmbeddingNorm, "emb_ln"},
    {TensorRole::kQkv, "encoder.layers.{}.attn.Wqkv"},
    {TensorRole::kO, "encoder.layers.{}.attn.out_proj"},
    {TensorRole::kPostAttentionNorm, "encoder.layers.{}.norm1"},
    {TensorRole::kGate, "encoder.layers.{}.mlp.fc12"},
    {TensorRole::kUp, "encoder.layers.{}.mlp.fc11"},
    {TensorRole::kDown, "encoder.layers.{}.mlp.fc2"},
    {TensorRole::kPostMlpNorm, "encoder.layers.{}.norm2"},
};
constexpr NamePrefix kNomicPrefixes[] = {{"", ""}, {"bert.", ""}, {"nomic_bert.", ""}};
constexpr std::string_view kNomicIgnored[] = {"pooler.", "cls.", "position_ids",
                                              "rotary_emb.inv_freq", "vocab_"};
constexpr NameMapEntry kNomicGgufEntries[] = {
    {TensorRole::kTokenTypeEmbedding, "token_types"},
    {TensorRole::kPostAttentionNorm, "blk.{}.attn_output_norm"},
    {TensorRole::kPostMlpNorm, "blk.{}.layer_output_norm"},
};
constexpr std::string_view kNomicTypes[] = {"nomic_bert"};
constexpr KeyAlias kNomicAliases[] = {
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"intermediate_size", "n_inner"},
    {"max_position_embeddings", "n_positions"},
    {"rms_norm_eps", "layer_norm_epsilon"},
    {"rms_norm_eps", "layer_norm_eps"},
    {"rope_theta", "rotary_emb_base"},
    {"partial_rotary_factor", "rotary_emb_fraction"},
};

void read_nomic(const ConfigReader& reader, ModelConfig& config) {
  config.num_token_types = reader.integer("type_vocab_size", {1, 1 << 10}, 2);
  if (reader.integer("num_experts", {0, 1 << 10}, 0) > 1)
    reader.fail("num_experts: expected none: mixtures of experts are not here");
  for (const std::string_view key : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm",
                                     "rotary_emb_interleaved", "causal"}) {
    if (reader.boolean(key, false)) reader.fail(fmt::format("{}: expected false, got true", key));
  }
}

constexpr NameMapEntry kDistilEntries[] = {
    {TensorRole::kTokenEmbedding, "embeddings.word_embeddings"},
    {TensorRole::kPositionEmbedding, "embeddings.position_embeddings"},
    {TensorRole::kEmbeddingNorm, "embeddings.LayerNorm"},
    {TensorRole::kQ, "transformer.layer.{}.attention.q_lin"},
    {TensorRole::kK, "transformer.layer.{}.attention.k_lin"},
    {TensorRole::kV, "transformer.layer.{}.attention.v_lin"},
    {TensorRole::kO, "transformer.layer.{}.attention.out_lin"},
    {TensorRole::kPostAttentionNorm, "transformer.layer.{}.sa_layer_norm"},
    {TensorRole::kUp, "transformer.layer.{}.ffn.lin1"},
    {TensorRole::kDown, "transformer.layer.{}.ffn.lin2"},
    {TensorRole::kPostMlpNorm, "transformer.layer.{}.output_layer_norm"},
};
constexpr NamePrefix kDistilPrefixes[] = {{"distilbert.", ""}, {"", ""}};
constexpr std::string_view kDistilIgnored[] = {"vocab_", "position_ids"};
constexpr std::string_view kDistilTypes[] = {"distilbert"};
constexpr KeyAlias kDistilAliases[] = {
    {"hidden_size", "dim"},
    {"num_hidden_layers", "n_layers"},
    {"num_attention_heads", "n_heads"},
    {"intermediate_size", "hidden_dim"},
    {"hidden_act", "activation"},
};

}  // namespace

const Family& nomic_bert_family() {
  static constexpr Family family{
      .name = "nomic_bert",
      .model_types = kNomicTypes,
      .gguf_architecture = "nomic-bert",
      .defaults = {.vocab_size = 30528,
                   .hidden_size = 768,
                   .intermediate_size = 3072,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 2048,
                   .norm_eps = 1e-12,
                   .rope_theta = 1000.0,
                   .activation = "silu"},
      .aliases = kNomicAliases,
      .is_bidirectional = true,
      .default_pooling = PoolingKind::kMean,
      .block = kNomicBlock,
      .read_more = read_nomic,
      .hf_names = {kNomicEntries, kNomicPrefixes, kNomicIgnored},
      .gguf_names = {kNomicGgufEntries, kGgufPrefixes, kNomicIgnored, 0.0f, &kGgufNames},
  };
  return family;
}

const Family& distilbert_family() {
  static constexpr Family family{
      .name = "distilbert",
      .model_types = kDistilTypes,
      .defaults = {.vocab_size = 30522,
                   .hidden_size = 768,
                   .intermediate_size = 3072,
                   .num_hidden_layers = 6,
                   .num_attention_heads = 12,
                   .max_position_embeddings = 512,
                   .norm_eps = 1e-12,
                   .activation = "gelu"},
      .aliases = kDistilAliases,
      .positions = PositionKind::kLearned,
      .is_bidirectional = true,
      .default_pooling = PoolingKind::kMean,
      .block = kNomicBlock,
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .hf_names = {kDistilEntries, kDistilPrefixes, kDistilIgnored},
  };
  return family;
}

}  // namespace quire
