// These functions cut pictures into squares of the size that a model takes, each encoded by itself,
// beside the whole picture as one such square.
#pragma once

#include <cstdint>
#include <vector>

#include "core/picture.h"
#include "media/decode/image.h"
#include "media/resize.h"

namespace quire {

struct PictureTiles {
  TileGrid grid;             // of `tiles`; without rows, there is only the whole picture
  std::vector<Image> tiles;  // row by row
  Image whole;
};

// A CropRule says how a long picture is cut into crops side by side, beside the whole picture
// (Gemma 3's pan and scan).
struct CropRule {
  int32_t max_crops = 0;   // 0 means that pictures stay whole
  int32_t min_size = 256;  // of a crop's shorter side, in the picture's pixels
  double min_ratio = 1.2;  // of the longer side to the shorter one, below which pictures stay whole
};

// The functions of this file are pure; any thread may call them.
PictureTiles cut_best_grid(const Image& image, const PictureShape& shape, ResizeFilter filter);
PictureTiles cut_nearest_ratio(const Image& image, int32_t side, int32_t max_tiles,
                               ResizeFilter filter);
// First scales the picture so that its longer side is `longest_edge`.
PictureTiles cut_longest_edge(const Image& image, int32_t side, int32_t longest_edge,
                              ResizeFilter filter);

// Cuts a row or a column of crops and stretches each to a square. Without crops, there is only the
// whole.
PictureTiles cut_crops(const Image& image, int32_t side, const CropRule& rule, ResizeFilter filter);

// Returns one picture: the best canvas of the shape's grids, with `image` at its top left, scaled
// with its shape kept to one tile at least and as large as the canvas allows, and black beside it.
Image fit_best_canvas(const Image& image, const PictureShape& shape, ResizeFilter filter);

// Returns the embeddings of a picture of `width` x `height` that cut_best_grid() has cut, in the
// order of MediaItem::order: first those of the whole, then those of the grid row by row, each row
// with a line break behind it. Rows and columns that show nothing of the picture are left out.
std::vector<int32_t> order_of_grid(int32_t width, int32_t height, TileGrid grid,
                                   int32_t cells_per_side);

}  // namespace quire
