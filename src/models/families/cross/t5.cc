// T5 and similar models (Flan-T5, mT5, UMT5): an encoder reads a text, and a decoder attends to its
// output. Biases of scores by distance instead of positions, no other biases, RMSNorms before each
// part, unscaled scores.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr NameMapEntry kDecoderEntries[] = {
    {TensorRole::kTokenEmbedding, "shared"},
    {TensorRole::kTokenEmbedding, "decoder.embed_tokens"},
    {TensorRole::kFinalNorm, "decoder.final_layer_norm"},
    {TensorRole::kLmHead, "lm_head"},
    // One table per layer in UMT5; otherwise the first layer has the table that all share.
    {TensorRole::kRelativeBias, "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias"},
    {TensorRole::kRelativeBias, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {TensorRole::kInputNorm, "decoder.block.{}.layer.0.layer_norm"},
    {TensorRole::kQ, "decoder.block.{}.layer.0.SelfAttention.q"},
    {TensorRole::kK, "decoder.block.{}.layer.0.SelfAttention.k"},
    {TensorRole::kV, "decoder.block.{}.layer.0.SelfAttention.v"},
    {TensorRole::kO, "decoder.block.{}.layer.0.SelfAttention.o"},
    {TensorRole::kCrossNorm, "decoder.block.{}.layer.1.layer_norm"},
    {TensorRole::kCrossQ, "decoder.block.{}.layer.1.EncDecAttention.q"},
    {TensorRole::kCrossK, "decoder.block.{}.layer.1.EncDecAttention.k"},
    {TensorRole::kCrossV, "decoder.block.{}.layer.1.EncDecAttention.v"},
    {TensorRole::kCrossO, "decoder.block.{}.layer.1.EncDecAttention.o"},
    {TensorRole::kPreMlpNorm, "decoder.block.{}.layer.2.layer_norm"},
    {TensorRole::kGate, "decoder.block.{}.layer.2.DenseReluDense.wi_0"},
    {TensorRole::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi_1"},
    {TensorRole::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi"},
    {TensorRole::kDown, "decoder.block.{}.layer.2.DenseReluDense.wo"},
};
// The first file of T5 has a table of biases for the cross-attention, which is not used.
constexpr std::string_view kNotOfDecoder[] = {"encoder.", "embed_tokens", "shared",
                                              "EncDecAttention.relative_attention_bias"};

constexpr NameMapEntry kEncoderEntries[] = {
    {TensorRole::kTokenEmbedding, "shared"},
    {TensorRole::kTokenEmbedding, "encoder.embed_tokens"},
    {TensorRole::kFinalNorm, "encoder.final_layer_norm"},
    {TensorRole::kRelativeBias, "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias"},
    {TensorRole::kRelativeBias, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {TensorRole::kInputNorm, "encoder.block.{}.layer.0.layer_norm"},
    {TensorRole::kQ, "encoder.block.{}.layer.0.SelfAttention.q"},
    {TensorRole::kK, "encoder.block.{}.layer.0.SelfAttention.k"},
    {TensorRole::kV, "encoder.block.{}.layer.0.SelfAttention.v"},
    {TensorRole::kO, "encoder.block.{}.layer.0.SelfAttention.o"},
    {TensorRole::kPreMlpNorm, "encoder.block.{}.layer.1.layer_norm"},
    {TensorRole::kGate, "encoder.block.{}.layer.1.DenseReluDense.wi_0"},
    {TensorRole::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi_1"},
    {TensorRole::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi"},
    {TensorRole::kDown, "encoder.block.{}.layer.1.DenseReluDense.wo"},
};
constexpr std::string_view kNotOfEncoder[] = {"decoder.", "embed_tokens", "shared", "lm_head"};

constexpr NamePrefix kT5Prefixes[] = {{"", ""}, {"transformer.", ""}};

constexpr NameMapEntry kGgufDecoderEntries[] = {
    {TensorRole::kTokenEmbedding, "token_embd"},
    {TensorRole::kFinalNorm, "dec.output_norm"},
    {TensorRole::kLmHead, "output"},
    {TensorRole::kRelativeBias, "dec.blk.{}.attn_rel_b"},
    {TensorRole::kRelativeBias, "dec.blk.0.attn_rel_b"},
    {TensorRole::kInputNorm, "dec.blk.{}.attn_norm"},
    {TensorRole::kQ, "dec.blk.{}.attn_q"},
    {TensorRole::kK, "dec.blk.{}.attn_k"},
    {TensorRole::kV, "dec.blk.{}.attn_v"},
    {TensorRole::kO, "dec.blk.{}.attn_o"},
    {TensorRole::kCrossNorm, "dec.blk.{}.cross_attn_norm"},
    {TensorRole::kCrossQ, "dec.blk.{}.cross_attn_q"},
    {TensorRole::kCrossK, "dec.blk.{}.cross_attn_k"},
    {TensorRole::kCrossV, "dec.blk.{}.cross_attn_v"},
    {TensorRole::kCrossO, "dec.blk.{}.cross_attn_o"},
    {TensorRole::kPreMlpNorm, "dec.blk.{}.ffn_norm"},
    {TensorRole::kGate, "dec.blk.{}.ffn_gate"},
    {TensorRole::kUp, "dec.blk.{}.ffn_up"},
    {TensorRole::kDown, "dec.blk.{}.ffn_down"},
};
constexpr std::string_view kGgufNotOfDecoder[] = {"enc.", "cross_attn_rel_b"};

constexpr NameMapEntry kGgufEncoderEntries[] = {
    {TensorRole::kTokenEmbedding, "token_embd"},
    {TensorRole::kFinalNorm, "enc.output_norm"},
    {TensorRole::kRelativeBias, "enc.blk.{}.attn_rel_b"},
    {TensorRole::kRelativeBias, "enc.blk.0.attn_rel_b"},
    {TensorRole::kInputNorm, "enc.blk.{}.attn_norm"},
    {TensorRole::kQ, "enc.blk.{}.attn_q"},
    {TensorRole::kK, "enc.blk.{}.attn_k"},
    {TensorRole::kV, "enc.blk.{}.attn_v"},
    {TensorRole::kO, "enc.blk.{}.attn_o"},
    {TensorRole::kPreMlpNorm, "enc.blk.{}.ffn_norm"},
    {TensorRole::kGate, "enc.blk.{}.ffn_gate"},
    {TensorRole::kUp, "enc.blk.{}.ffn_up"},
    {TensorRole::kDown, "enc.blk.{}.ffn_down"},
};
constexpr std::string_view kGgufNotOfEncoder[] = {"dec.", "output.weight"};
constexpr std::string_view kT5Types[] = {"t5", "mt5", "umt5"};

constexpr KeyAlias kDecoderAliases[] = {{"hidden_size", "d_model"},
                                        {"intermediate_size", "d_ff"},
                                        {"num_hidden_layers", "num_decoder_layers"},
                                        {"num_hidden_layers", "num_layers"},
                                        {"num_attention_heads", "num_heads"},
                                        {"head_dim", "d_kv"},
                                        {"max_position_embeddings", "n_positions"},
                                        {"rms_norm_eps", "layer_norm_epsilon"}};
constexpr KeyAlias kEncoderAliases[] = {{"hidden_size", "d_model"},
                                        {"intermediate_size", "d_ff"},
                                        {"num_hidden_layers", "num_layers"},
                                        {"num_attention_heads", "num_heads"},
                                        {"head_dim", "d_kv"},
                                        {"max_position_embeddings", "n_positions"},
                                        {"rms_norm_eps", "layer_norm_epsilon"}};

constexpr FamilyDefaults kDefaults{.vocab_size = 32128,
                                   .hidden_size = 512,
                                   .intermediate_size = 2048,
                                   .num_hidden_layers = 6,
                                   .num_attention_heads = 8,
                                   .head_dim = 64,
                                   .max_position_embeddings = 512,
                                   .norm_eps = 1e-6,
                                   .activation = "relu",
                                   .tie_word_embeddings = true};

// gated-gelu has always meant the tanh approximation.
void read_feed_forward(const ConfigReader& reader, std::string_view default_name,
                       ModelConfig& config) {
  constexpr struct {
    std::string_view name;
    Activation activation;
    bool gated;
  } kKnown[] = {
      {"relu", Activation::kRelu, false},          {"gelu", Activation::kGeluErf, false},
      {"silu", Activation::kSilu, false},          {"gated-relu", Activation::kRelu, true},
      {"gated-gelu", Activation::kGeluTanh, true}, {"gated-silu", Activation::kSilu, true}};
  const std::string name = reader.string("feed_forward_proj", default_name);
  for (const auto& known : kKnown) {
    if (known.name != name) continue;
    config.activation = known.activation;
    config.gated_mlp = known.gated;
    return;
  }
  reader.fail(fmt::format(
      "feed_forward_proj: expected relu, gelu, silu or gated- and one of them, got {}", name));
}

void read_stack(const ConfigReader& reader, bool causal, ModelConfig& config) {
  const std::string type = reader.string("model_type", "t5");
  read_feed_forward(reader, type == "t5" ? "relu" : "gated-gelu", config);
  const int64_t buckets = reader.integer("relative_attention_num_buckets", {4, 1 << 10}, 32);
  const int64_t distance =
      reader.integer("relative_attention_max_distance", {buckets, 1 << 16}, 128);
  if (buckets % 4 != 0) {
    reader.fail(
        fmt::format("relative_attention_num_buckets: expected a multiple of 4, got {}", buckets));
  }
  config.relative_bias = {.num_buckets = static_cast<int32_t>(buckets),
                          .max_distance = static_cast<int32_t>(distance),
                          .causal = causal,
                          .per_layer = type == "umt5"};
  config.attention_scale = 1.0;
}

void read_encoder(const ConfigReader& reader, ModelConfig& config) {
  read_stack(reader, false, config);
}

// Logits are scaled if the configuration ties head and embedding; mT5's never are.
void read_decoder(const ConfigReader& reader, ModelConfig& config) {
  read_stack(reader, true, config);
  config.cross = {.num_heads = static_cast<int32_t>(config.num_attention_heads),
                  .num_kv_heads = static_cast<int32_t>(config.num_attention_heads),
                  .head_dim = static_cast<int32_t>(config.head_dim),
                  .source_size = config.hidden_size,
                  .max_source_len = static_cast<int32_t>(config.max_position_embeddings)};
  const bool scales = reader.boolean("scale_decoder_outputs", config.tie_word_embeddings);
  if (scales && reader.string("model_type", "t5") != "mt5")
    config.logit_multiplier = 1.0 / std::sqrt(static_cast<double>(config.hidden_size));
}

const Family& t5_encoder() {
  static constexpr Family family{
      .name = "t5 encoder",
      .model_types = kT5Types,
      .gguf_architecture = "t5encoder",
      .defaults = kDefaults,
      .aliases = kEncoderAliases,
      .positions = PositionKind::kNone,
      .is_bidirectional = true,
      .default_pooling = PoolingKind::kMean,
      .read_more = read_encoder,
      .hf_names = {kEncoderEntries, kT5Prefixes, kNotOfEncoder},
      .gguf_names = {kGgufEncoderEntries, kGgufPrefixes, kGgufNotOfEncoder},
  };
  return family;
}

}  // namespace

const Family& t5_family() {
  static constexpr Family family{
      .name = "t5",
      .model_types = kT5Types,
      .gguf_architecture = "t5",
      .defaults = kDefaults,
      .aliases = kDecoderAliases,
      .positions = PositionKind::kNone,
      .reads_source = true,
      .text_encoder = t5_encoder,
      .read_more = read_decoder,
      .hf_names = {kDecoderEntries, kT5Prefixes, kNotOfDecoder},
      .gguf_names = {kGgufDecoderEntries, kGgufPrefixes, kGgufNotOfDecoder},
  };
  return family;
}

}  // namespace quire
