// Gemma 3: SigLIP's tower. The patches of a cell are averaged, and a norm and one layer compute an
// embedding from the mean. The tokens of a picture attend to each other.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "models/vision/tower_reader.h"

namespace quire {
namespace {

constexpr NameMapEntry kGemma3TowerEntries[] = {
    {.role = TensorRole::kDenseInputNorm, .pattern = "dense_norm.{}", .offset = 1.0f},
    {TensorRole::kSentenceDense, "dense.{}"},
    {.role = TensorRole::kSentenceDense, .pattern = "dense.{}", .transposed = true, .bare = true},
};

}  // namespace

void read_gemma3(const ConfigReader& top, int64_t hidden_size, VisionSpec& vision) {
  const std::optional<ConfigReader> reader = read_tower_config(top, {{"siglip_vision_model"}});
  if (!reader) return;
  read_clip(*reader, {.is_siglip = true}, vision);
  if (!top.status().ok()) return;
  const int64_t num_tokens = top.integer("mm_tokens_per_image", {1, VisionSpec::kMaxCells}, 256);
  const auto side = std::llround(std::sqrt(static_cast<double>(num_tokens)));
  const int64_t patches = vision.image_size / vision.patch_size;
  if (side * side != num_tokens || patches % side != 0) {
    return top.fail(fmt::format(
        "mm_tokens_per_image: expected a square whose side divides {}, the patches of one, got {}",
        patches, num_tokens));
  }
  set_merge_size(top, "mm_tokens_per_image", patches / side, vision);
  vision.cells = CellRows::kAveraged;
  vision.num_projector_layers = 1;
  vision.is_bidirectional = true;
  vision.fit = PictureFit::kStretched;
  vision.mean = vision.std = {0.5f, 0.5f, 0.5f};
  const int64_t width = vision.encoder.hidden_size;
  PoolingLayerSpec projector = tower_dense(1, width, hidden_size, false);
  projector.input_norm = {.is_rms = true, .eps = vision.encoder.norm_eps};
  vision.encoder.pooling.layers = {tower_dense(0, vision.patch_elements(), width, true), projector};
  vision.tensor_prefixes = {"vision_tower.", "multi_modal_projector."};
  vision.dense_names = {"vision_tower.embeddings.patch_embedding",
                        "multi_modal_projector.mm_input_projection_weight"};
  vision.dense_norm_names = {"", "multi_modal_projector.mm_soft_emb_norm"};
  vision.names = {.entries = kGemma3TowerEntries,
                  .prefixes = kTowerPrefix,
                  .ignored = clip_names().ignored,
                  .base = &clip_names()};
  vision.placeholder = read_placeholder(top, 262144);
  vision.text = {.marker = "<start_of_image>",
                 .before = "\n\n<start_of_image>",
                 .whole = "<image_soft_token>",
                 .after = "<end_of_image>\n\n",
                 .crops = {.before_whole = "Here is the original image ",
                           .behind_whole = " and here are some crops to help you see better ",
                           .between = " "}};
}

}  // namespace quire
