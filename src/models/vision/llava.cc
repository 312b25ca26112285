// LLaVA 1.5 and NeXT: two linear layers between a tower and the language model. The tower is
// CLIP's, or in 1.5 also Pixtral's. NeXT cuts pictures into tiles.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry kLlavaTowerEntries[] = {
    {TensorRole::kSentenceDense, "dense.{}"},
    {.role = TensorRole::kSentenceDense, .pattern = "dense.{}", .bare = true},
};

void read_clip_of(const ConfigReader& top, const ConfigReader& tower, VisionSpec& vision) {
  const int64_t feature_layer = top.integer("vision_feature_layer", {-256, 256}, -2);
  read_clip(tower, {.patch_size = 32, .feature_layer = feature_layer}, vision);
}

void read_projector(const ConfigReader& top, int64_t hidden_size, std::string_view patches,
                    VisionSpec& vision) {
  const Activation activation = read_tower_activation(top, "projector_hidden_act", "gelu");
  const bool has_bias = top.boolean("multimodal_projector_bias", true);
  vision.placeholder = read_placeholder(top, 32000);
  const int64_t width = vision.encoder.hidden_size;
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, false),
                                   tower_dense(1, width, hidden_size, has_bias, activation),
                                   tower_dense(2, hidden_size, hidden_size, has_bias)};
  vision.dense_names = {std::string(patches), "multi_modal_projector.linear_1",
                        "multi_modal_projector.linear_2"};
  vision.tensor_prefixes = {"vision_tower.", "multi_modal_projector."};
}

constexpr std::string_view kClipPatches = "vision_tower.embeddings.patch_embedding";

// Reads sizes of pictures and turns them into grids of tiles.
void read_grids(const ConfigReader& top, VisionSpec& vision) {
  std::vector<std::pair<double, double>> sizes = top.number_pairs("image_grid_pinpoints");
  if (sizes.empty()) sizes = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  constexpr int32_t kMostTiles = 36;
  for (const auto& [height, width] : sizes) {
    const double side = vision.image_size, rows = height / side, columns = width / side;
    if (rows < 1 || columns < 1 || rows != std::floor(rows) || columns != std::floor(columns) ||
        rows * columns > kMostTiles) {
      return top.fail(
          fmt::format("image_grid_pinpoints: expected multiples of image_size {}, at most {} such "
                      "squares, got [{}, {}]",
                      side, kMostTiles, height, width));
    }
    vision.grids.push_back(
        {.rows = static_cast<int32_t>(rows), .columns = static_cast<int32_t>(columns)});
  }
}

}  // namespace

void read_llava(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower =
      read_tower_config(top, {{"clip_vision_model", "pixtral"}});
  if (!tower) return;
  const bool is_pixtral = tower->string("model_type", "") == "pixtral";
  if (is_pixtral) {
    check_last_layer(top, -2);
    read_pixtral(*tower, vision);
  } else {
    read_clip_of(top, *tower, vision);
  }
  const std::string strategy = top.string("vision_feature_select_strategy", "default");
  if (strategy != "full" && (is_pixtral || strategy != "default")) {
    top.fail(fmt::format("vision_feature_select_strategy: expected {}full, got {}",
                         is_pixtral ? "" : "default or ", strategy));
  }
  vision.drops_class_token = strategy == "default";
  read_projector(top, hidden_size, is_pixtral ? "vision_tower.patch_conv" : kClipPatches, vision);
}

void read_llava_next(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower = read_tower_config(top, {{"clip_vision_model"}});
  if (!tower) return;
  read_clip_of(top, *tower, vision);
  if (!top.status().ok()) return;
  const std::string strategy = top.string("vision_feature_select_strategy", "default");
  if (strategy != "default") {
    top.fail(fmt::format("vision_feature_select_strategy: expected default, got {}", strategy));
  }
  read_projector(top, hidden_size, kClipPatches, vision);
  vision.fit = PictureFit::kBestGrid;
  read_grids(top, vision);
  vision.encoder.pooling.layers.push_back(tower_dense(3, 1, hidden_size, false));
  vision.dense_names.emplace_back("image_newline");
  vision.tensor_prefixes.emplace_back("image_newline");
  vision.names = {.entries = kLlavaTowerEntries,
                  .prefixes = kTowerPrefix,
                  .ignored = clip_names().ignored,
                  .base = &clip_names(),
                  .ignores_later_layers = true};
}

}  // namespace quire
