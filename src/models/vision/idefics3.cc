// Idefics3 and SmolVLM: SigLIP's tower over tiles, and one layer that computes an embedding from
// the patches of a cell (pixel shuffle).
#include <fmt/format.h>

#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {

void read_idefics3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> tower =
      read_tower_config(top, {{"idefics3_vision", "idefics3", "smolvlm_vision", "smolvlm"}});
  if (!tower) return;
  read_clip(*tower, {.is_siglip = true, .width = 1152, .num_heads = 16, .patch_size = 32}, vision);
  read_merge_size(top, "scale_factor", 2, vision);
  if (!top.status().ok()) return;
  vision.fit = PictureFit::kLongestEdge;
  vision.mean = vision.std = {0.5f, 0.5f, 0.5f};
  vision.num_projector_layers = 1;
  const int64_t width = vision.encoder.hidden_size;
  vision.encoder.pooling.layers = {
      tower_dense(0, vision.patch_elements(), width, true),
      tower_dense(1, width * vision.patches_per_cell(), hidden_size, false)};
  vision.tensor_prefixes = {"vision_model.", "connector."};
  vision.dense_names = {"vision_tower.embeddings.patch_embedding",
                        "connector.modality_projection.proj"};
  vision.placeholder = read_placeholder(top, 128257);
  vision.text = {.marker = "<image>",
                 .tile = "<fake_token_around_image><row_{row}_col_{column}><image>",
                 .between = "\n",
                 .behind_tiles = "\n\n",
                 .whole = "<fake_token_around_image><global-img><image>",
                 .after = "<fake_token_around_image>"};
}

}  // namespace quire
