#include "exec/media/picture_grid.h"

#include <algorithm>

namespace quire {
namespace {

void add_cell(const VisionSpec& spec, int32_t row, int32_t column, PictureGrid& grid) {
  grid.cells.push_back(row * grid.width + column);
  for (int32_t y = 0; y < spec.merge_size; ++y) {
    for (int32_t x = 0; x < spec.merge_size; ++x)
      grid.patches.push_back({row * spec.merge_size + y, column * spec.merge_size + x});
  }
}

}  // namespace

PictureGrid make_picture_grid(const VisionSpec& spec, int32_t height, int32_t width) {
  PictureGrid grid{.height = height, .width = width};
  grid.window_starts.push_back(0);
  const int32_t window_height = spec.window_cells > 0 ? spec.window_cells : height;
  const int32_t window_width = spec.window_cells > 0 ? spec.window_cells : width;
  for (int32_t top = 0; top < height; top += window_height) {
    for (int32_t left = 0; left < width; left += window_width) {
      const int32_t bottom = std::min(height, top + window_height);
      const int32_t right = std::min(width, left + window_width);
      for (int32_t row = top; row < bottom; ++row) {
        for (int32_t column = left; column < right; ++column) add_cell(spec, row, column, grid);
      }
      grid.window_starts.push_back(static_cast<int32_t>(grid.patches.size()));
    }
  }
  return grid;
}

}  // namespace quire
