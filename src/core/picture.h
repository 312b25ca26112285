// Which pictures a model takes, and how a prompt writes them: what whoever reads its configuration
// tells whoever makes pictures ready.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

// How a picture is made one that the model takes.
enum class PictureFit : uint8_t {
  kMiddle,     // a square of one size: the shorter side is made to fit, and the middle cut out (CLIP)
  kStretched,  // a square of one size, whatever its shape was (SigLIP)
  kNearest,    // both sides become the nearest multiples of a cell's (Qwen2-VL)
  kRoundedUp,  // or the next ones, and the longer side has an end (Pixtral)
};

struct PictureShape {
  PictureFit fit = PictureFit::kMiddle;
  int32_t image_size = 0;      // sides of a square
  int32_t num_embeddings = 0;  // of one
  int32_t cell_size = 0;       // sides of a cell, which becomes one embedding
  int32_t max_cells = 0;

  bool is_square() const { return fit == PictureFit::kMiddle || fit == PictureFit::kStretched; }
};

// How a prompt writes an image, where that is more than one placeholder: `marker`, as chat templates
// write it, becomes `row` for each row of embeddings with `between` between them, then `after`. `row`
// holds one placeholder, which stands for as many embeddings as the row has.
struct PictureText {
  std::string marker;  // empty: the placeholder stands by itself
  std::string row;
  std::string between;
  std::string after;
  bool has_rows = false;  // else all embeddings are one row
};

}  // namespace quire
