// LLaVA 1.5: two linear layers between a tower, CLIP's or Pixtral's, and the language model.
#include <fmt/format.h>

#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {

void read_llava(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower =
      read_tower_config(top, {{"clip_vision_model", "pixtral"}});
  if (!tower) return;
  const bool is_pixtral = tower->string("model_type", "") == "pixtral";
  if (is_pixtral) {
    check_last_layer(top);
    read_pixtral(*tower, vision);
  } else {
    const int64_t feature_layer = top.integer("vision_feature_layer", {-256, 256}, -2);
    read_clip(*tower, {.patch_size = 32, .feature_layer = feature_layer}, vision);
  }
  const std::string strategy = top.string("vision_feature_select_strategy", "default");
  if (strategy != "full" && (is_pixtral || strategy != "default")) {
    top.fail(fmt::format("vision_feature_select_strategy: expected {}full, got {}",
                         is_pixtral ? "" : "default or ", strategy));
  }
  vision.drops_class_token = strategy == "default";
  const Activation activation = read_tower_activation(top, "projector_hidden_act", "gelu");
  const bool has_bias = top.boolean("multimodal_projector_bias", true);
  vision.placeholder = read_placeholder(top, 32000);
  const int64_t width = vision.encoder.hidden_size;
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, false),
                                   tower_dense(1, width, hidden_size, has_bias, activation),
                                   tower_dense(2, hidden_size, hidden_size, has_bias)};
  vision.dense_names = {
      is_pixtral ? "vision_tower.patch_conv" : "vision_tower.embeddings.patch_embedding",
      "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"};
  vision.tensor_prefixes = {"vision_tower.", "multi_modal_projector."};
}

}  // namespace quire
