// BART and mBART: an encoder reads a text, and a decoder attends to its output. Learned positions
// after two rows for padding, a norm of the embedding, biases everywhere. BART's norms come after
// each sum, mBART's before each part.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr NameMapEntry kDecoderEntries[] = {
    {TensorRole::kTokenEmbedding, "shared"},
    {TensorRole::kTokenEmbedding, "decoder.embed_tokens"},
    {TensorRole::kPositionEmbedding, "decoder.embed_positions"},
    {TensorRole::kEmbeddingNorm, "decoder.layernorm_embedding"},
    {TensorRole::kFinalNorm, "decoder.layer_norm"},
    {TensorRole::kLmHead, "lm_head"},
    {.role = TensorRole::kLogitBias, .pattern = "final_logits_bias", .bare = true},
    {TensorRole::kInputNorm, "decoder.layers.{}.self_attn_layer_norm"},
    {TensorRole::kPostAttentionNorm, "decoder.layers.{}.self_attn_layer_norm"},
    {TensorRole::kQ, "decoder.layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "decoder.layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "decoder.layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "decoder.layers.{}.self_attn.out_proj"},
    {TensorRole::kCrossNorm, "decoder.layers.{}.encoder_attn_layer_norm"},
    {TensorRole::kCrossQ, "decoder.layers.{}.encoder_attn.q_proj"},
    {TensorRole::kCrossK, "decoder.layers.{}.encoder_attn.k_proj"},
    {TensorRole::kCrossV, "decoder.layers.{}.encoder_attn.v_proj"},
    {TensorRole::kCrossO, "decoder.layers.{}.encoder_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "decoder.layers.{}.final_layer_norm"},
    {TensorRole::kPostMlpNorm, "decoder.layers.{}.final_layer_norm"},
    {TensorRole::kUp, "decoder.layers.{}.fc1"},
    {TensorRole::kDown, "decoder.layers.{}.fc2"},
};
constexpr std::string_view kNotOfDecoder[] = {"encoder.", "embed_tokens", "shared"};

constexpr NameMapEntry kEncoderEntries[] = {
    {TensorRole::kTokenEmbedding, "shared"},
    {TensorRole::kTokenEmbedding, "encoder.embed_tokens"},
    {TensorRole::kPositionEmbedding, "encoder.embed_positions"},
    {TensorRole::kEmbeddingNorm, "encoder.layernorm_embedding"},
    {TensorRole::kFinalNorm, "encoder.layer_norm"},
    {TensorRole::kInputNorm, "encoder.layers.{}.self_attn_layer_norm"},
    {TensorRole::kPostAttentionNorm, "encoder.layers.{}.self_attn_layer_norm"},
    {TensorRole::kQ, "encoder.layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "encoder.layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "encoder.layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "encoder.layers.{}.self_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "encoder.layers.{}.final_layer_norm"},
    {TensorRole::kPostMlpNorm, "encoder.layers.{}.final_layer_norm"},
    {TensorRole::kUp, "encoder.layers.{}.fc1"},
    {TensorRole::kDown, "encoder.layers.{}.fc2"},
};
constexpr std::string_view kNotOfEncoder[] = {"decoder.", "embed_tokens", "shared", "lm_head",
                                              "final_logits_bias"};

constexpr NamePrefix kBartPrefixes[] = {{"model.", ""}, {"", ""}};
constexpr std::string_view kBartTypes[] = {"bart", "mbart"};

constexpr KeyAlias kDecoderAliases[] = {{"hidden_size", "d_model"},
                                        {"intermediate_size", "decoder_ffn_dim"},
                                        {"num_hidden_layers", "decoder_layers"},
                                        {"num_attention_heads", "decoder_attention_heads"},
                                        {"hidden_act", "activation_function"}};
constexpr KeyAlias kEncoderAliases[] = {{"hidden_size", "d_model"},
                                        {"intermediate_size", "encoder_ffn_dim"},
                                        {"num_hidden_layers", "encoder_layers"},
                                        {"num_attention_heads", "encoder_attention_heads"},
                                        {"hidden_act", "activation_function"}};

constexpr FamilyDefaults kDefaults{.vocab_size = 50265,
                                   .hidden_size = 1024,
                                   .intermediate_size = 4096,
                                   .num_hidden_layers = 12,
                                   .num_attention_heads = 16,
                                   .max_position_embeddings = 1024,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu",
                                   .tie_word_embeddings = true};
constexpr BlockStyle kBartBlock{.norm = NormKind::kLayer,
                                .norm_bias = true,
                                .input_norms = false,
                                .embedding_norm = true,
                                .final_norm = false,
                                .residual = ResidualStyle::kNormOfSum};

void read_stack(const ConfigReader& reader, ModelConfig& config) {
  if (reader.string("model_type", "bart") == "mbart") {
    config.block.input_norms = config.block.final_norm = true;
    config.block.residual = ResidualStyle::kSequential;
  }
  if (reader.boolean("scale_embedding", false))
    config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
}

void read_decoder(const ConfigReader& reader, ModelConfig& config) {
  read_stack(reader, config);
  config.cross = {
      .num_heads = static_cast<int32_t>(config.num_attention_heads),
      .num_kv_heads = static_cast<int32_t>(config.num_attention_heads),
      .head_dim = static_cast<int32_t>(config.head_dim),
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
      .bias = true,
      .source_size = config.hidden_size,
      .max_source_len = static_cast<int32_t>(config.max_position_embeddings)};
}

const Family& bart_encoder() {
  static constexpr Family family{
      .name = "bart encoder",
      .model_types = kBartTypes,
      .defaults = kDefaults,
      .aliases = kEncoderAliases,
      .positions = PositionKind::kLearned,
      .first_position_row = 2,
      .is_bidirectional = true,
      .block = kBartBlock,
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_stack,
      .hf_names = {kEncoderEntries, kBartPrefixes, kNotOfEncoder},
  };
  return family;
}

}  // namespace

const Family& bart_family() {
  static constexpr Family family{
      .name = "bart",
      .model_types = kBartTypes,
      .defaults = kDefaults,
      .aliases = kDecoderAliases,
      .positions = PositionKind::kLearned,
      .first_position_row = 2,
      .reads_source = true,
      .text_encoder = bart_encoder,
      .block = kBartBlock,
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_decoder,
      .hf_names = {kDecoderEntries, kBartPrefixes, kNotOfDecoder},
  };
  return family;
}

}  // namespace quire
