// InternVL in the format of transformers: a tower over tiles, whose layers scale their outputs
// column by column, and a norm and two layers for the patches of a cell (pixel shuffle).
#include <fmt/format.h>

#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry kInternvlTowerEntries[] = {
    {.role = TensorRole::kTokenEmbedding,
     .pattern = "vision_tower.embeddings.cls_token",
     .bare = true},
    {.role = TensorRole::kPositionEmbedding,
     .pattern = "vision_tower.embeddings.position_embeddings",
     .bare = true},
    {TensorRole::kInputNorm, "vision_tower.encoder.layer.{}.layernorm_before"},
    {TensorRole::kQ, "vision_tower.encoder.layer.{}.attention.q_proj"},
    {TensorRole::kK, "vision_tower.encoder.layer.{}.attention.k_proj"},
    {TensorRole::kV, "vision_tower.encoder.layer.{}.attention.v_proj"},
    {TensorRole::kO, "vision_tower.encoder.layer.{}.attention.projection_layer"},
    {.role = TensorRole::kPostAttentionNorm,
     .pattern = "vision_tower.encoder.layer.{}.lambda_1",
     .bare = true},
    {TensorRole::kPreMlpNorm, "vision_tower.encoder.layer.{}.layernorm_after"},
    {TensorRole::kUp, "vision_tower.encoder.layer.{}.mlp.fc1"},
    {TensorRole::kDown, "vision_tower.encoder.layer.{}.mlp.fc2"},
    {.role = TensorRole::kPostMlpNorm,
     .pattern = "vision_tower.encoder.layer.{}.lambda_2",
     .bare = true},
    {TensorRole::kFinalNorm, "vision_tower.layernorm"},
    {TensorRole::kSentenceDense, "dense.{}"},
    {TensorRole::kDenseInputNorm, "dense_norm.{}"},
};

// Refuses keys of towers of another kind.
void check_kind(const ConfigReader& top, const ConfigReader& reader) {
  check_last_layer(top);
  const std::string strategy = top.string("vision_feature_select_strategy", "default");
  if (strategy != "default")
    top.fail(fmt::format("vision_feature_select_strategy: expected default, got {}", strategy));
  const std::string norm = reader.string("norm_type", "layer_norm");
  if (norm != "layer_norm")
    reader.fail(fmt::format("norm_type: expected layer_norm, got {}", norm));
  if (reader.boolean("use_qk_norm", false)) reader.fail("use_qk_norm: expected false, got true");
  if (!reader.boolean("use_absolute_position_embeddings", true))
    reader.fail("use_absolute_position_embeddings: expected true, got false");
}

void read_encoder(const ConfigReader& reader, VisionSpec& vision) {
  DecoderSpec& encoder = vision.encoder;
  encoder.hidden_size = reader.integer("hidden_size", kTowerWidth, 1024);
  AttentionSpec attention = tower_attention(reader, encoder.hidden_size,
                                            reader.integer("num_attention_heads", {1, 1024}, 16));
  attention.qkv_bias = reader.boolean("attention_bias", false);
  const FfnSpec mlp{.intermediate_size = reader.integer("intermediate_size", kTowerWidth, 4096),
                    .activation = read_tower_activation(reader, "hidden_act", "gelu"),
                    .gated = false,
                    .bias = true};
  const auto num_layers = static_cast<size_t>(reader.integer("num_hidden_layers", {1, 256}, 24));
  encoder.layers.assign(num_layers, {.attention = attention, .ffn = mlp});
  encoder.block = {.norm = NormKind::kLayer,
                   .norm_bias = true,
                   .output_scales = true,
                   .final_norm = !reader.boolean("use_mean_pooling", true)};
  encoder.norm_eps = static_cast<float>(reader.positive("layer_norm_eps", 1e-6));
  encoder.has_head = false;
  encoder.vocab_size = 1;
  vision.image_size = static_cast<int32_t>(reader.integer("image_size", kTowerSide, 448));
  vision.patch_size = static_cast<int32_t>(reader.integer("patch_size", kTowerSide, 14));
  check_channels(reader, "num_channels");
  const int64_t side = vision.image_size / vision.patch_size;
  encoder.num_positions = side * side + 1;
  vision.positions = PatchPositions::kRows;
}

}  // namespace

void read_internvl(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower = read_tower_config(top, {{"internvl_vision"}});
  if (!tower) return;
  check_kind(top, *tower);
  read_encoder(*tower, vision);
  const double ratio = top.positive("downsample_ratio", 0.5);
  if (ratio > 1.0 || ratio < 0.1)
    return top.fail(fmt::format("downsample_ratio: expected 0.1 to 1, got {}", ratio));
  set_merge_size(top, "downsample_ratio", static_cast<int32_t>(1.0 / ratio), vision);
  const Activation activation = read_tower_activation(top, "projector_hidden_act", "gelu");
  vision.placeholder = read_placeholder(top, 151667);
  if (!top.status().ok()) return;
  vision.fit = PictureFit::kNearestRatio;
  vision.mean = {0.485f, 0.456f, 0.406f};
  vision.std = {0.229f, 0.224f, 0.225f};
  const int64_t width = vision.encoder.hidden_size;
  PoolingLayerSpec first =
      tower_dense(1, width * vision.patches_per_cell(), hidden_size, true, activation);
  first.input_norm = {.eps = 1e-5f};
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, true), first,
                                   tower_dense(2, hidden_size, hidden_size, true)};
  vision.dense_names = {"vision_tower.embeddings.patch_embeddings.projection",
                        "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"};
  vision.dense_norm_names = {"", "multi_modal_projector.layer_norm", ""};
  vision.tensor_prefixes = {"vision_tower.", "multi_modal_projector."};
  vision.names = {.entries = kInternvlTowerEntries, .prefixes = kTowerPrefix, .ignored = {}};
  vision.text = {.marker = "<IMG_CONTEXT>",
                 .before = "<img>",
                 .tile = "<IMG_CONTEXT>",
                 .whole = "<IMG_CONTEXT>",
                 .after = "</img>"};
}

}  // namespace quire
