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
  TileGrid grid;              // of the tiles; of no rows: there is the whole alone
  std::vector<Image> tiles;   // row by row
  Image whole;                // of no pixels where one tile is the whole
  // Pixels of the grid on each side of which the picture, fitted in, leaves something: columns and
  // rows of tiles that show nothing of it (kBestGrid).
  int32_t num_pictures() const { return static_cast<int32_t>(tiles.size()) + (whole.width > 0); }
};

// `shape.fit`: kBestGrid, kNearestRatio or kLongestEdge. Pure; any thread.
PictureTiles cut_tiles(const Image& image, const PictureShape& shape, ResizeFilter filter,
                       int32_t longest_edge);

}  // namespace quire
