// Pictures that are cut into squares of the size that a model takes, each encoded by itself, beside the
// whole picture as one such square.
#pragma once

#include <cstdint>
#include <vector>

#include "core/picture.h"
#include "media/decode/image.h"
#include "media/resize.h"

namespace quire {

struct PictureTiles {
  TileGrid grid;             // of `tiles`; of no rows: there is the whole alone
  std::vector<Image> tiles;  // row by row
  Image whole;
};

// Parts of a long picture, side by side, beside the whole (Gemma 3's pan and scan).
struct CropRule {
  int32_t max_crops = 0;   // 0: pictures stay whole
  int32_t min_size = 256;  // of a crop's shorter side, in pixels of the picture
  double min_ratio = 1.2;  // of the longer side to the shorter one; less long pictures stay whole
};

// Pure; any thread.
PictureTiles cut_best_grid(const Image& image, const PictureShape& shape, ResizeFilter filter);
PictureTiles cut_nearest_ratio(const Image& image, int32_t side, int32_t max_tiles,
                               ResizeFilter filter);
// `longest_edge`: what the longer side becomes first.
PictureTiles cut_longest_edge(const Image& image, int32_t side, int32_t longest_edge,
                              ResizeFilter filter);

// A row or a column of crops, each stretched to a square; of no crops there is the whole alone.
PictureTiles cut_crops(const Image& image, int32_t side, const CropRule& rule, ResizeFilter filter);

// As one picture that fills the best canvas of the shape's grids: its shape kept, grown to one tile at
// least, in the corner at the top left with black beside it.
Image fit_best_canvas(const Image& image, const PictureShape& shape, ResizeFilter filter);

// The embeddings of a picture of `width` x `height` that cut_best_grid() has cut, in the order of
// MediaItem::order: those of the whole, which comes first, and then those of the grid row by row, each
// with a line break behind it. Rows and columns that show nothing of the picture are left out.
std::vector<int32_t> order_of_grid(int32_t width, int32_t height, TileGrid grid,
                                   int32_t cells_per_side);

}  // namespace quire
