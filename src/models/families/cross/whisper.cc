// The decoder of Whisper, with cross-attention to the encoder of a recording
// (models/speech/speech_config.h): learned positions, LayerNorms before each part, biases except in
// key projections.
#include <cmath>

#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"

namespace quire {
namespace {

constexpr NameMapEntry kWhisperEntries[] = {
    {TensorRole::kTokenEmbedding, "embed_tokens"},
    {TensorRole::kPositionEmbedding, "embed_positions"},
    {TensorRole::kFinalNorm, "layer_norm"},
    {TensorRole::kLmHead, "proj_out"},
    {TensorRole::kInputNorm, "layers.{}.self_attn_layer_norm"},
    {TensorRole::kQ, "layers.{}.self_attn.q_proj"},
    {.role = TensorRole::kK, .pattern = "layers.{}.self_attn.k_proj", .has_bias = false},
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "layers.{}.self_attn.out_proj"},
    {TensorRole::kCrossNorm, "layers.{}.encoder_attn_layer_norm"},
    {TensorRole::kCrossQ, "layers.{}.encoder_attn.q_proj"},
    {.role = TensorRole::kCrossK, .pattern = "layers.{}.encoder_attn.k_proj", .has_bias = false},
    {TensorRole::kCrossV, "layers.{}.encoder_attn.v_proj"},
    {TensorRole::kCrossO, "layers.{}.encoder_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "layers.{}.final_layer_norm"},
    {TensorRole::kUp, "layers.{}.fc1"},
    {TensorRole::kDown, "layers.{}.fc2"},
};
constexpr NamePrefix kWhisperPrefixes[] = {{"model.decoder.", ""}, {"decoder.", ""}};
constexpr std::string_view kWhisperIgnored[] = {"encoder."};

constexpr std::string_view kWhisperTypes[] = {"whisper"};
constexpr KeyAlias kWhisperAliases[] = {{"hidden_size", "d_model"},
                                        {"intermediate_size", "decoder_ffn_dim"},
                                        {"num_hidden_layers", "decoder_layers"},
                                        {"num_attention_heads", "decoder_attention_heads"},
                                        {"max_position_embeddings", "max_target_positions"},
                                        {"hidden_act", "activation_function"}};

void read_whisper(const ConfigReader& reader, ModelConfig& config) {
  config.cross = {
      .num_heads = static_cast<int32_t>(config.num_attention_heads),
      .num_kv_heads = static_cast<int32_t>(config.num_attention_heads),
      .head_dim = static_cast<int32_t>(config.head_dim),
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
      .bias = true,
      .source_size = config.hidden_size,
      .max_source_len =
          static_cast<int32_t>(reader.integer("max_source_positions", {1, 1 << 14}, 1500))};
  if (reader.boolean("scale_embedding", false))
    config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
}

}  // namespace

const Family& whisper_family() {
  static constexpr Family family{
      .name = "whisper",
      .model_types = kWhisperTypes,
      .defaults = {.vocab_size = 51865,
                   .hidden_size = 384,
                   .intermediate_size = 1536,
                   .num_hidden_layers = 4,
                   .num_attention_heads = 6,
                   .max_position_embeddings = 448,
                   .norm_eps = 1e-5,
                   .activation = "gelu",
                   .tie_word_embeddings = true},
      .aliases = kWhisperAliases,
      .positions = PositionKind::kLearned,
      .reads_source = true,
      .block = {.norm = NormKind::kLayer, .norm_bias = true},
      .qkv_bias = BiasRule::kAlways,
      .o_bias = BiasRule::kAlways,
      .mlp_bias = BiasRule::kAlways,
      .gated_mlp = false,
      .read_more = read_whisper,
      .hf_names = {kWhisperEntries, kWhisperPrefixes, kWhisperIgnored},
  };
  return family;
}

}  // namespace quire
