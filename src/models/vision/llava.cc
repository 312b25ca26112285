// CLIP's tower, and LLaVA 1.5's projector, which Pixtral has too.
#include <fmt/format.h>

#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry kClipEntries[] = {
    {.role = TensorRole::kTokenEmbedding,
     .pattern = "vision_tower.embeddings.class_embedding",
     .bare = true},
    {TensorRole::kPositionEmbedding, "vision_tower.embeddings.position_embedding"},
    {TensorRole::kEmbeddingNorm, "vision_tower.pre_layrnorm"},
    {TensorRole::kInputNorm, "vision_tower.encoder.layers.{}.layer_norm1"},
    {TensorRole::kQ, "vision_tower.encoder.layers.{}.self_attn.q_proj"},
    {TensorRole::kK, "vision_tower.encoder.layers.{}.self_attn.k_proj"},
    {TensorRole::kV, "vision_tower.encoder.layers.{}.self_attn.v_proj"},
    {TensorRole::kO, "vision_tower.encoder.layers.{}.self_attn.out_proj"},
    {TensorRole::kPreMlpNorm, "vision_tower.encoder.layers.{}.layer_norm2"},
    {TensorRole::kUp, "vision_tower.encoder.layers.{}.mlp.fc1"},
    {TensorRole::kDown, "vision_tower.encoder.layers.{}.mlp.fc2"},
    {TensorRole::kSentenceDense, "dense.{}"},
};
// What stands behind the layer that is read, and a buffer.
constexpr std::string_view kIgnored[] = {"post_layernorm", "position_ids"};

// CLIP's vision model: LayerNorms with biases before attention and MLP, and on what enters.
void read_clip(const ConfigReader& reader, int64_t feature_layer, VisionSpec& vision) {
  DecoderSpec& encoder = vision.encoder;
  encoder.hidden_size = reader.integer("hidden_size", kTowerWidth, 768);
  const int64_t heads = reader.integer("num_attention_heads", {1, 1024}, 12);
  const int64_t ffn = reader.integer("intermediate_size", kTowerWidth, 3072);
  const int64_t num_layers = reader.integer("num_hidden_layers", {1, 256}, 12);
  vision.image_size = static_cast<int32_t>(reader.integer("image_size", kTowerSide, 224));
  vision.patch_size = static_cast<int32_t>(reader.integer("patch_size", kTowerSide, 32));
  encoder.norm_eps = static_cast<float>(reader.positive("layer_norm_eps", 1e-5));
  const Activation activation = read_tower_activation(reader, "hidden_act", "quick_gelu");
  const int64_t num_used = feature_layer < 0 ? num_layers + 1 + feature_layer : feature_layer;
  if (num_used < 1 || num_used > num_layers) {
    reader.fail(fmt::format("vision_feature_layer: expected one of {} layers, got {}", num_layers,
                            feature_layer));
  }
  const AttentionSpec attention = tower_attention(reader, encoder.hidden_size, heads);
  if (vision.image_size % vision.patch_size != 0) {
    reader.fail(fmt::format("image_size: expected a multiple of patch_size {}, got {}",
                            vision.patch_size, vision.image_size));
  }
  if (!reader.status().ok()) return;
  const FfnSpec mlp{
      .intermediate_size = ffn, .activation = activation, .gated = false, .bias = true};
  encoder.layers.assign(static_cast<size_t>(num_used), {.attention = attention, .ffn = mlp});
  encoder.block = {
      .norm = NormKind::kLayer, .norm_bias = true, .embedding_norm = true, .final_norm = false};
  encoder.has_head = false;
  encoder.vocab_size = 1;
  encoder.num_positions = vision.max_rows();
  vision.positions = PatchPositions::kRows;
}

}  // namespace

// LLaVA 1.5: two linear layers between CLIP and the language model.
void read_llava(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower = top.child("vision_config");
  if (!tower) return top.fail("vision_config: expected an object");
  const std::string type = tower->string("model_type", "clip_vision_model");
  const bool is_pixtral = type == "pixtral";
  if (!is_pixtral && type != "clip_vision_model")
    return top.fail(
        fmt::format("vision_config: expected clip_vision_model or pixtral, got {}", type));
  const int64_t feature_layer = top.integer("vision_feature_layer", {-256, 256}, -2);
  if (is_pixtral) {
    if (feature_layer != -1)
      top.fail(fmt::format("vision_feature_layer: expected -1, got {}", feature_layer));
    read_pixtral(*tower, vision);
  } else {
    read_clip(*tower, feature_layer, vision);
  }
  const std::string strategy = top.string("vision_feature_select_strategy", "default");
  if (strategy != "full" && (is_pixtral || strategy != "default")) {
    top.fail(fmt::format("vision_feature_select_strategy: expected {}full, got {}",
                         is_pixtral ? "" : "default or ", strategy));
  }
  vision.drops_class_token = strategy == "default";
  const Activation activation = read_tower_activation(top, "projector_hidden_act", "gelu");
  const bool has_bias = top.boolean("multimodal_projector_bias", true);
  const std::string_view key =
      top.has("image_token_index") ? "image_token_index" : "image_token_id";
  vision.placeholder = static_cast<TokenId>(top.integer(key, {0, 1 << 24}, 32000));
  const int64_t width = vision.encoder.hidden_size;
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, false),
                                   tower_dense(1, width, hidden_size, has_bias, activation),
                                   tower_dense(2, hidden_size, hidden_size, has_bias)};
  vision.dense_names = {
      is_pixtral ? "vision_tower.patch_conv" : "vision_tower.embeddings.patch_embedding",
      "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"};
  if (is_pixtral) return;
  vision.tensor_prefixes = {"vision_tower.", "multi_modal_projector."};
  vision.names = {kClipEntries, kTowerPrefix, kIgnored};
  vision.names.ignores_later_layers = true;
}

}  // namespace quire
