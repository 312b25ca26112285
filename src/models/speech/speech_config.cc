#include "models/speech/speech_config.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/config_fields.h"

namespace quire {
namespace {

constexpr NameMapEntry kSpeechEntries[] = {
    {TensorRole::kPositionEmbedding, "embed_positions"},
    {TensorRole::kInputNorm, "layers.{}.self_attn_layer_norm"},
    {TensorRole::kQ, "layers.{}.self_attn.q_proj"},
    {.role = TensorRole::kK, .pattern = "layers.{}.self_attn.k_proj", .has_bias = false},
    {TensorRole::kV, "layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "layers.{}.self_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "layers.{}.final_layer_norm"},
    {TensorRole::kUp, "layers.{}.fc1"},
    {TensorRole::kDown, "layers.{}.fc2"},
    {TensorRole::kFinalNorm, "layer_norm"},
    {TensorRole::kSentenceDense, "conv{}"},
};
constexpr NamePrefix kPrefixes[] = {{"", ""}};

constexpr IntRange kWidth{1, 1 << 16};

PoolingLayerSpec convolution(int32_t index, int64_t num_channels, int64_t num_outputs,
                             Activation activation) {
  return {.role = TensorRole::kSentenceDense,
          .index = index,
          .num_inputs = num_channels * SpeechSpec::kTaps,
          .num_outputs = num_outputs,
          .bias = true,
          .activation = activation};
}

void read_encoder(const ConfigReader& reader, SpeechSpec& speech) {
  DecoderSpec& encoder = speech.encoder;
  encoder.hidden_size = reader.integer("d_model", kWidth, 384);
  const int64_t heads = reader.integer("encoder_attention_heads", {1, 1024}, 6);
  const int64_t ffn = reader.integer("encoder_ffn_dim", kWidth, 1536);
  const int64_t num_layers = reader.integer("encoder_layers", {1, 256}, 4);
  speech.num_bands = static_cast<int32_t>(reader.integer("num_mel_bins", {1, 512}, 80));
  speech.num_rows =
      static_cast<int32_t>(reader.integer("max_source_positions", {1, 1 << 14}, 1500));
  const std::string activation = reader.string("activation_function", "gelu");
  if (activation != "gelu")
    reader.fail(fmt::format("activation_function: expected gelu, got {}", activation));
  const int64_t head_dim = encoder.hidden_size / heads;
  if (encoder.hidden_size % heads != 0 || head_dim % 2 != 0) {
    reader.fail(
        fmt::format("encoder_attention_heads: expected heads of an even size that fill d_model {}, "
                    "got {}",
                    encoder.hidden_size, heads));
  }
  if (!reader.status().ok()) return;
  const AttentionSpec attention{
      .num_heads = static_cast<int32_t>(heads),
      .num_kv_heads = static_cast<int32_t>(heads),
      .head_dim = static_cast<int32_t>(head_dim),
      .causal = false,
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))),
      .rope_style = RopeStyle::kNone,
      .qkv_bias = true,
      .o_bias = true};
  const FfnSpec mlp{
      .intermediate_size = ffn, .activation = Activation::kGeluErf, .gated = false, .bias = true};
  encoder.layers.assign(static_cast<size_t>(num_layers), {.attention = attention, .ffn = mlp});
  encoder.block = {.norm = NormKind::kLayer, .norm_bias = true};
  encoder.norm_eps = 1e-5f;
  encoder.has_head = false;
  encoder.num_positions = speech.num_rows;
  encoder.pooling.layers = {
      convolution(0, speech.num_bands, encoder.hidden_size, Activation::kGeluErf),
      convolution(1, encoder.hidden_size, encoder.hidden_size, Activation::kGeluErf)};
}

}  // namespace

Result<std::optional<SpeechSpec>> parse_speech(std::string_view config) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object,
                         parse_config_object(config, "config.json"));
  Status status;
  const ConfigReader reader(object, "config.json", {}, status);
  const bool is_whisper = reader.string("model_type", "") == "whisper";
  SpeechSpec speech{.names = {.entries = kSpeechEntries, .prefixes = kPrefixes}};
  if (is_whisper) read_encoder(reader, speech);
  if (!status.ok()) return status;
  if (!is_whisper) return std::optional<SpeechSpec>();
  return std::optional(std::move(speech));
}

Result<std::optional<SpeechSpec>> read_speech(const ModelFiles& files) {
  if (files.gguf_name() || !files.contains("config.json")) return std::optional<SpeechSpec>();
  QUIRE_ASSIGN_OR_RETURN(const std::string_view config, files.text("config.json"));
  return parse_speech(config);
}

Status parse_alignment(std::string_view config, std::string_view generation, DecoderSpec& decoder) {
  CrossSpec& cross = decoder.cross;
  Status status;
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object,
                         parse_config_object(config, "config.json"));
  const ConfigReader reader(object, "config.json", {}, status);
  cross.alignment_filter_rows =
      static_cast<int32_t>(reader.integer("median_filter_width", {1, 1 << 10}, 7));
  if (cross.alignment_filter_rows % 2 == 0) {
    reader.fail(fmt::format("median_filter_width: expected an odd number, got {}",
                            cross.alignment_filter_rows));
  }
  if (!status.ok() || generation.empty()) return status;
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object defaults,
                         parse_config_object(generation, "generation_config.json"));
  const boost::json::value* const list = defaults.if_contains("alignment_heads");
  if (list == nullptr || list->is_null()) return {};
  const auto refuse = [&] {
    cross.alignment_heads.clear();
    return invalid_argument(
        "generation_config.json: alignment_heads: expected pairs of one of {} layers and one of {} "
        "heads",
        decoder.layers.size(), cross.num_heads);
  };
  const size_t most = decoder.layers.size() * static_cast<size_t>(cross.num_heads);
  if (!list->is_array() || list->get_array().size() > most) return refuse();
  for (const boost::json::value& pair : list->get_array()) {
    if (!pair.is_array() || pair.get_array().size() != 2) return refuse();
    const std::int64_t* const layer = pair.get_array()[0].if_int64();
    const std::int64_t* const head = pair.get_array()[1].if_int64();
    if (layer == nullptr || head == nullptr || *layer < 0 || *head < 0 ||
        *layer >= std::ssize(decoder.layers) || *head >= cross.num_heads)
      return refuse();
    cross.alignment_heads.push_back({static_cast<int32_t>(*layer), static_cast<int32_t>(*head)});
  }
  return {};
}

Status read_alignment(const ModelFiles& files, DecoderSpec& decoder) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view config, files.text("config.json"));
  std::string_view generation;
  if (files.contains("generation_config.json")) {
    QUIRE_ASSIGN_OR_RETURN(generation, files.text("generation_config.json"));
  }
  return parse_alignment(config, generation, decoder);
}

TensorSource speech_tensors(const TensorSource& source) {
  std::vector<RawTensor> tensors;
  for (RawTensor tensor : source.tensors()) {
    std::string& name = tensor.name;
    constexpr std::string_view kModel = "model.", kEncoder = "encoder.";
    if (name.starts_with(kModel)) name.erase(0, kModel.size());
    if (!name.starts_with(kEncoder)) continue;
    name.erase(0, kEncoder.size());
    // Layers are numbered from 0.
    constexpr std::string_view kConvolution = "conv";
    if (name.starts_with(kConvolution) && name.size() > kConvolution.size())
      --name[kConvolution.size()];
    if (tensor.shape.size() == 3)
      tensor.shape = {tensor.shape[0], tensor.shape[1] * tensor.shape[2]};
    tensors.push_back(std::move(tensor));
  }
  return TensorSource(std::move(tensors));
}

}  // namespace quire
