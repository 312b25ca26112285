#include "models/vision/vision_config.h"

#include <boost/json/parse.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/config_reader.h"

namespace quire {
namespace {

constexpr IntRange kWidth{1, 1 << 16};
constexpr IntRange kSide{1, 4096};

// CLIP's tensors as the first tools saved them; dense layers by their number
// (VisionSpec::encoder.pooling.layers), whatever the file calls them.
constexpr NameMapEntry kClipEntries[] = {
    {.role = TensorRole::kTokenEmbedding,
     .pattern = "vision_tower.vision_model.embeddings.class_embedding",
     .bare = true},
    {TensorRole::kPositionEmbedding, "vision_tower.vision_model.embeddings.position_embedding"},
    {TensorRole::kEmbeddingNorm, "vision_tower.vision_model.pre_layrnorm"},
    {TensorRole::kInputNorm, "vision_tower.vision_model.encoder.layers.{}.layer_norm1"},
    {TensorRole::kQ, "vision_tower.vision_model.encoder.layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "vision_tower.vision_model.encoder.layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "vision_tower.vision_model.encoder.layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "vision_tower.vision_model.encoder.layers.{}.self_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "vision_tower.vision_model.encoder.layers.{}.layer_norm2"},
    {TensorRole::kUp, "vision_tower.vision_model.encoder.layers.{}.mlp.fc1"},
    {TensorRole::kDown, "vision_tower.vision_model.encoder.layers.{}.mlp.fc2"},
    {TensorRole::kSentenceDense, "dense.{}"},
};
constexpr NamePrefix kNoPrefix[] = {{"", ""}};
// What stands behind the layer that is read, and a buffer.
constexpr std::string_view kIgnored[] = {"post_layernorm", "position_ids"};

struct DenseLayer {
  std::string_view name;
  std::string_view number;
};
constexpr DenseLayer kDenseLayers[] = {
    {"vision_tower.vision_model.embeddings.patch_embedding", "dense.0"},
    {"multi_modal_projector.linear_1", "dense.1"},
    {"multi_modal_projector.linear_2", "dense.2"}};

Result<boost::json::object> parse_object(std::string_view text, std::string_view where) {
  boost::json::parse_options options;
  options.max_depth = 32;
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return invalid_argument("{}: not valid JSON: {}", where, error.message());
  if (!value.is_object()) return invalid_argument("{}: expected an object", where);
  return std::move(value.get_object());
}

Activation read_activation(const ConfigReader& reader, std::string_view key,
                           std::string_view default_name) {
  const std::string name = reader.string(key, default_name);
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name != "gelu") {
    reader.fail(
        fmt::format("{}: expected quick_gelu, gelu or gelu_pytorch_tanh, got {}", key, name));
  }
  return Activation::kGeluErf;
}

// Three numbers of preprocessor_config.json, or CLIP's.
std::array<float, 3> read_channels(const ConfigReader& reader, std::string_view key,
                                   std::array<float, 3> default_values, bool is_divisor) {
  const std::vector<double> numbers = reader.numbers(key);
  if (numbers.empty()) return default_values;
  std::array<float, 3> channels = default_values;
  if (numbers.size() != channels.size()) {
    reader.fail(fmt::format("{}: expected 3 numbers, got {}", key, numbers.size()));
    return channels;
  }
  for (size_t i = 0; i < channels.size(); ++i) {
    channels[i] = static_cast<float>(numbers[i]);
    if (!std::isfinite(numbers[i]) || (is_divisor && channels[i] <= 0.0f))
      reader.fail(fmt::format("{}: expected finite numbers above 0, got {}", key, numbers[i]));
  }
  return channels;
}

// CLIP's vision model: LayerNorms with biases before attention and MLP, and on what enters.
void read_clip(const ConfigReader& reader, int64_t feature_layer, VisionSpec& vision) {
  DecoderSpec& encoder = vision.encoder;
  encoder.hidden_size = reader.integer("hidden_size", kWidth, 768);
  const int64_t heads = reader.integer("num_attention_heads", {1, 1024}, 12);
  const int64_t ffn = reader.integer("intermediate_size", kWidth, 3072);
  const int64_t num_layers = reader.integer("num_hidden_layers", {1, 256}, 12);
  vision.image_size = static_cast<int32_t>(reader.integer("image_size", kSide, 224));
  vision.patch_size = static_cast<int32_t>(reader.integer("patch_size", kSide, 32));
  encoder.norm_eps = static_cast<float>(reader.positive("layer_norm_eps", 1e-5));
  const Activation activation = read_activation(reader, "hidden_act", "quick_gelu");
  const int64_t num_used = feature_layer < 0 ? num_layers + 1 + feature_layer : feature_layer;
  if (num_used < 1 || num_used > num_layers) {
    reader.fail(fmt::format("vision_feature_layer: expected one of {} layers, got {}", num_layers,
                            feature_layer));
  }
  if (encoder.hidden_size % heads != 0 || encoder.hidden_size / heads % 2 != 0 ||
      encoder.hidden_size / heads > kMaxAttentionHeadDim) {
    reader.fail(fmt::format("hidden_size: expected {} heads of an even size, got {}", heads,
                            encoder.hidden_size));
  }
  if (vision.image_size % vision.patch_size != 0) {
    reader.fail(fmt::format("image_size: expected a multiple of patch_size {}, got {}",
                            vision.patch_size, vision.image_size));
  }
  if (!reader.status().ok()) return;
  const auto head_dim = static_cast<int32_t>(encoder.hidden_size / heads);
  const AttentionSpec attention{.num_heads = static_cast<int32_t>(heads),
                                .num_kv_heads = static_cast<int32_t>(heads),
                                .head_dim = head_dim,
                                .causal = false,
                                .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
                                .rope_style = RopeStyle::kNone,
                                .qkv_bias = true,
                                .o_bias = true};
  const FfnSpec mlp{
      .intermediate_size = ffn, .activation = activation, .gated = false, .bias = true};
  encoder.layers.assign(static_cast<size_t>(num_used), {.attention = attention, .ffn = mlp});
  encoder.block = {
      .norm = NormKind::kLayer, .norm_bias = true, .embedding_norm = true, .final_norm = false};
  encoder.has_head = false;
  encoder.vocab_size = 1;
  encoder.num_positions = vision.num_rows();
}

// LLaVA 1.5: two linear layers between CLIP and the language model.
void read_llava(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower = top.child("vision_config");
  if (!tower) return top.fail("vision_config: expected an object");
  const std::string type = tower->string("model_type", "clip_vision_model");
  if (type != "clip_vision_model")
    return top.fail(fmt::format("vision_config: expected clip_vision_model, got {}", type));
  read_clip(*tower, top.integer("vision_feature_layer", {-256, 256}, -2), vision);
  const std::string strategy = top.string("vision_feature_select_strategy", "default");
  if (strategy != "default" && strategy != "full") {
    top.fail(
        fmt::format("vision_feature_select_strategy: expected default or full, got {}", strategy));
  }
  vision.drops_class_token = strategy == "default";
  const Activation activation = read_activation(top, "projector_hidden_act", "gelu");
  const bool has_bias = top.boolean("multimodal_projector_bias", true);
  const std::string_view key =
      top.has("image_token_index") ? "image_token_index" : "image_token_id";
  vision.placeholder = static_cast<TokenId>(top.integer(key, {0, 1 << 24}, 32000));
  const int64_t width = vision.encoder.hidden_size;
  vision.encoder.pooling.layers = {{.role = TensorRole::kSentenceDense,
                                    .index = 0,
                                    .num_inputs = vision.patch_elements(),
                                    .num_outputs = width,
                                    .bias = false},
                                   {.role = TensorRole::kSentenceDense,
                                    .index = 1,
                                    .num_inputs = width,
                                    .num_outputs = hidden_size,
                                    .bias = has_bias,
                                    .activation = activation},
                                   {.role = TensorRole::kSentenceDense,
                                    .index = 2,
                                    .num_inputs = hidden_size,
                                    .num_outputs = hidden_size,
                                    .bias = has_bias}};
  vision.names = {kClipEntries, kNoPrefix, kIgnored};
  vision.names.ignores_later_layers = true;
}

}  // namespace

Result<std::optional<VisionSpec>> parse_vision(std::string_view config,
                                               std::string_view preprocessor, int64_t hidden_size) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, parse_object(config, "config.json"));
  Status status;
  const ConfigReader top(object, "config.json", {}, status);
  if (top.string("model_type", "") != "llava") {
    if (!status.ok()) return status;
    return std::optional<VisionSpec>();
  }
  VisionSpec vision;
  read_llava(top, hidden_size, vision);
  boost::json::object images;
  if (!preprocessor.empty()) {
    QUIRE_ASSIGN_OR_RETURN(images, parse_object(preprocessor, "preprocessor_config.json"));
  }
  const ConfigReader of_file(images, "preprocessor_config.json", {}, status);
  const ConfigReader reader = of_file.child("image_processor").value_or(of_file);
  vision.mean = read_channels(reader, "image_mean", {0.48145466f, 0.4578275f, 0.40821073f}, false);
  vision.std = read_channels(reader, "image_std", {0.26862954f, 0.26130258f, 0.27577711f}, true);
  if (!status.ok()) return status;
  return std::optional(std::move(vision));
}

Result<std::optional<VisionSpec>> read_vision(const ModelFiles& files, int64_t hidden_size) {
  if (files.gguf_name() || !files.contains("config.json")) return std::optional<VisionSpec>();
  QUIRE_ASSIGN_OR_RETURN(const std::string_view config, files.text("config.json"));
  std::string_view preprocessor;
  for (const char* name : {"preprocessor_config.json", "processor_config.json"}) {
    if (!preprocessor.empty() || !files.contains(name)) continue;
    QUIRE_ASSIGN_OR_RETURN(preprocessor, files.text(name));
  }
  return parse_vision(config, preprocessor, hidden_size);
}

TensorSource vision_tensors(const TensorSource& source) {
  std::vector<RawTensor> tensors;
  for (RawTensor tensor : source.tensors()) {
    constexpr std::string_view kModel = "model.";
    if (tensor.name.starts_with(kModel)) tensor.name.erase(0, kModel.size());
    const bool is_tower = tensor.name.starts_with("vision_tower.");
    if (!is_tower && !tensor.name.starts_with("multi_modal_projector.")) continue;
    // Newer tools leave this part out.
    constexpr std::string_view kTower = "vision_tower.", kInner = "vision_model.";
    if (is_tower && !std::string_view(tensor.name).substr(kTower.size()).starts_with(kInner))
      tensor.name.insert(kTower.size(), kInner);
    for (const DenseLayer& layer : kDenseLayers) {
      if (const size_t at = tensor.name.find(layer.name); at != std::string::npos)
        tensor.name = std::string(layer.number) + tensor.name.substr(at + layer.name.size());
    }
    if (tensor.shape.size() == 4)
      tensor.shape = {tensor.shape[0], tensor.shape[1] * tensor.shape[2] * tensor.shape[3]};
    if (tensor.name.ends_with(".class_embedding") && tensor.shape.size() == 1)
      tensor.shape.insert(tensor.shape.begin(), 1);
    tensors.push_back(std::move(tensor));
  }
  return TensorSource(std::move(tensors));
}

}  // namespace quire
