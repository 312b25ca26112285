// What makes a model's embeddings of an image, as plain data: exec/media/vision_tower.h carries it
// out.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "nn/decoder_spec.h"
#include "weights/names/name_map.h"

namespace quire {

// A picture of one size is cut into square patches, row by row. Each becomes a row of the encoder,
// which reads them all in both directions; a projector brings what comes of them to the width of the
// language model.
struct VisionSpec {
  // Its positions are those of the patches, behind a class token where vocab_size is 1, whose
  // embedding is the table of tokens. The first of pooling.layers makes rows of patches, the others
  // are the projector.
  DecoderSpec encoder;
  NameMap names;
  int32_t image_size = 0;         // sides of the picture
  int32_t patch_size = 0;         // sides of a patch
  bool drops_class_token = true;  // before the projector
  // A channel x, 0 to 255, enters as (x - 255 mean) / (255 std).
  std::array<float, 3> mean{};
  std::array<float, 3> std{};
  TokenId placeholder = -1;  // the token whose place in a prompt an image takes

  bool has_class_token() const { return encoder.vocab_size > 0; }
  int32_t num_patches() const {
    const int32_t side = image_size / patch_size;
    return side * side;
  }
  int32_t num_rows() const { return num_patches() + (has_class_token() ? 1 : 0); }
  int32_t num_embeddings() const {
    return num_rows() - (has_class_token() && drops_class_token ? 1 : 0);
  }
  int64_t patch_elements() const { return int64_t{3} * patch_size * patch_size; }
};

}  // namespace quire
