// PictureGrid describes a picture as the rows of an encoder: which patch each row is, and which
// rows see each other.
#pragma once

#include <cstdint>
#include <vector>

#include "models/vision/vision_spec.h"

namespace quire {

struct PatchPlace {
  int32_t y = 0;  // in patches
  int32_t x = 0;
};

// The order of an encoder's rows: the patches of a cell follow each other, row by row; so do the
// cells of a window, and so do the windows. Without windows, all cells follow each other.
struct PictureGrid {
  int32_t height = 0;  // in cells
  int32_t width = 0;
  std::vector<PatchPlace> patches;
  std::vector<int32_t> cells;          // by place in this order: the cell counted row by row
  std::vector<int32_t> window_starts;  // in patches; one more than there are windows

  int32_t num_cells() const { return height * width; }
  int32_t num_windows() const { return static_cast<int32_t>(window_starts.size()) - 1; }
};

// Makes the grid of a picture of `height` x `width` cells.
PictureGrid make_picture_grid(const VisionSpec& spec, int32_t height, int32_t width);

}  // namespace quire
