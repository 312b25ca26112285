#include "media/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/media.h"

namespace quire {
namespace {

// Returns the part of such a rectangle that lies in `image`.
Image part_of(const Image& image, int32_t left, int32_t top, int32_t width, int32_t height) {
  width = std::min(width, image.width - left), height = std::min(height, image.height - top);
  Image out{.width = width, .height = height, .rgb = {}};
  out.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int32_t y = 0; y < height; ++y)
    std::memcpy(out.pixel(0, y), image.pixel(left, top + y), static_cast<size_t>(width) * 3);
  return out;
}

std::vector<Image> squares_of(const Image& image, int32_t side) {
  std::vector<Image> squares;
  for (int32_t top = 0; top < image.height; top += side) {
    for (int32_t left = 0; left < image.width; left += side)
      squares.push_back(part_of(image, left, top, side, side));
  }
  return squares;
}

// Returns a larger black picture with `image` at this position.
Image place_at(const Image& image, int32_t left, int32_t top, int32_t width, int32_t height) {
  Image out{.width = width, .height = height, .rgb = {}};
  out.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int32_t y = 0; y < image.height; ++y)
    std::memcpy(out.pixel(left, top + y), image.pixel(0, y), static_cast<size_t>(image.width) * 3);
  return out;
}

// Returns a larger black picture with `image` in the middle.
Image pad(const Image& image, int32_t width, int32_t height) {
  return place_at(image, (width - image.width) / 2, (height - image.height) / 2, width, height);
}

// Returns the canvas that the picture fills with the least enlargement, or, if none is large
// enough, with the least reduction; among equals the smallest, and of these the first.
TileGrid best_canvas(const Image& image, const PictureShape& shape) {
  const auto scale_of = [&](const TileGrid& grid) {
    return std::min(static_cast<double>(grid.rows * shape.image_size) / image.height,
                    static_cast<double>(grid.columns * shape.image_size) / image.width);
  };
  TileGrid best = shape.grids.front();
  for (const TileGrid& grid : shape.grids) {
    const double scale = scale_of(grid), best_scale = scale_of(best);
    const bool grows = scale >= 1.0, best_grows = best_scale >= 1.0;
    bool is_better = grows && !best_grows;
    if (grows == best_grows) is_better = grows ? scale < best_scale : scale > best_scale;
    if (scale == best_scale) is_better = grid.size() < best.size();
    if (is_better) best = grid;
  }
  return best;
}

// Returns the grid in which the picture keeps most of its pixels; among equals, that with the least
// unused area.
TileGrid best_grid(const Image& image, const PictureShape& shape) {
  TileGrid best = shape.grids.front();
  int64_t best_used = 0, least_wasted = std::numeric_limits<int64_t>::max();
  const double width = image.width, height = image.height;
  for (const TileGrid& grid : shape.grids) {
    const int64_t grid_width = int64_t{grid.columns} * shape.image_size;
    const int64_t grid_height = int64_t{grid.rows} * shape.image_size;
    const double scale = std::min(static_cast<double>(grid_width) / width,
                                  static_cast<double>(grid_height) / height);
    const int64_t shrunk =
        static_cast<int64_t>(width * scale) * static_cast<int64_t>(height * scale);
    const int64_t used = std::min(shrunk, int64_t{image.width} * image.height);
    const int64_t wasted = grid_width * grid_height - used;
    if (used < best_used || (used == best_used && wasted >= least_wasted)) continue;
    best_used = used;
    least_wasted = wasted;
    best = grid;
  }
  return best;
}

// Computes Python's int(round(x, 7)), so that a product that is too small in its last bits is not
// rounded down.
int32_t floor_of_rounded(double x) {
  constexpr double kPlaces = 1e7;
  return static_cast<int32_t>(std::nearbyint(x * kPlaces) / kPlaces);
}

int32_t multiple_above(int32_t x, int32_t step) { return (x + step - 1) / step * step; }

}  // namespace

PictureTiles cut_best_grid(const Image& image, const PictureShape& shape, ResizeFilter filter) {
  const int32_t side = shape.image_size;
  PictureTiles cut{.grid = best_grid(image, shape), .tiles = {}, .whole = {}};
  const int32_t width = cut.grid.columns * side, height = cut.grid.rows * side;
  const double by_width = static_cast<double>(width) / image.width;
  const double by_height = static_cast<double>(height) / image.height;
  int32_t fitted_width = width, fitted_height = height;
  if (by_width < by_height) {
    fitted_height = std::min(static_cast<int32_t>(std::ceil(image.height * by_width)), height);
  } else {
    fitted_width = std::min(static_cast<int32_t>(std::ceil(image.width * by_height)), width);
  }
  cut.tiles =
      squares_of(pad(resize(image, fitted_width, fitted_height, filter), width, height), side);
  cut.whole = resize(image, side, side, filter);
  return cut;
}

PictureTiles cut_nearest_ratio(const Image& image, int32_t side, int32_t max_tiles,
                               ResizeFilter filter) {
  const double ratio = static_cast<double>(image.width) / image.height;
  const int64_t area = int64_t{image.width} * image.height;
  TileGrid best{.rows = 1, .columns = 1};
  double least = std::numeric_limits<double>::infinity();
  // Tries few tiles first, and among grids of as many tiles, few columns first.
  for (int32_t size = 1; size <= max_tiles; ++size) {
    for (int32_t columns = 1; columns <= size; ++columns) {
      if (size % columns != 0) continue;
      const TileGrid grid{.rows = size / columns, .columns = columns};
      const double off = std::abs(ratio - static_cast<double>(grid.columns) / grid.rows);
      // A grid of the same ratio with more tiles is better only if the picture has more than half
      // its pixels.
      if (off > least || (off == least && 2 * area <= int64_t{side} * side * size)) continue;
      least = off;
      best = grid;
    }
  }
  PictureTiles cut{.grid = best, .tiles = {}, .whole = resize(image, side, side, filter)};
  if (best.size() == 1) {
    cut.grid = {};
    return cut;
  }
  cut.tiles = squares_of(resize(image, best.columns * side, best.rows * side, filter), side);
  return cut;
}

PictureTiles cut_longest_edge(const Image& image, int32_t side, int32_t longest_edge,
                              ResizeFilter filter) {
  double ratio = static_cast<double>(image.width) / image.height;
  int32_t width = longest_edge, height = longest_edge;
  if (image.width >= image.height) {
    height = static_cast<int32_t>(width / ratio);
    height += height % 2;
  } else {
    width = static_cast<int32_t>(height * ratio);
    width += width % 2;
  }
  width = std::max(width, 1), height = std::max(height, 1);
  const Image fitted = resize(image, width, height, filter);
  ratio = static_cast<double>(width) / height;
  if (width >= height) {
    width = multiple_above(width, side);
    height = multiple_above(static_cast<int32_t>(width / ratio), side);
  } else {
    height = multiple_above(height, side);
    width = multiple_above(static_cast<int32_t>(height * ratio), side);
  }
  width = std::max(width, side), height = std::max(height, side);
  const Image filled = resize(fitted, width, height, filter);
  PictureTiles cut{.grid = {.rows = height / side, .columns = width / side},
                   .tiles = {},
                   .whole = resize(filled, side, side, filter)};
  if (cut.grid.size() == 1) {
    cut.grid = {};
  } else {
    cut.tiles = squares_of(filled, side);
  }
  return cut;
}

PictureTiles cut_crops(const Image& image, int32_t side, const CropRule& rule,
                       ResizeFilter filter) {
  PictureTiles cut{.grid = {}, .tiles = {}, .whole = resize(image, side, side, filter)};
  const bool is_wide = image.width >= image.height;
  const int32_t longer = std::max(image.width, image.height);
  const int32_t shorter = std::min(image.width, image.height);
  const double ratio = static_cast<double>(longer) / shorter;
  if (rule.max_crops == 0 || ratio < rule.min_ratio) return cut;
  const auto by_ratio = static_cast<int32_t>(std::floor(ratio + 0.5));
  const int32_t count =
      std::min(rule.max_crops, std::max(2, std::min(longer / rule.min_size, by_ratio)));
  const int32_t length = (longer + count - 1) / count;
  if (std::min(length, shorter) < rule.min_size) return cut;
  cut.grid =
      is_wide ? TileGrid{.rows = 1, .columns = count} : TileGrid{.rows = count, .columns = 1};
  for (int32_t i = 0; i < count; ++i) {
    const Image part = is_wide ? part_of(image, i * length, 0, length, image.height)
                               : part_of(image, 0, i * length, image.width, length);
    cut.tiles.push_back(resize(part, side, side, filter));
  }
  return cut;
}

Image fit_best_canvas(const Image& image, const PictureShape& shape, ResizeFilter filter) {
  const TileGrid grid = best_canvas(image, shape);
  const int32_t side = shape.image_size;
  const int32_t width = grid.columns * side, height = grid.rows * side;
  const int32_t most_width = std::clamp(image.width, side, width);
  const int32_t most_height = std::clamp(image.height, side, height);
  const double across = static_cast<double>(most_width) / image.width;
  const double down = static_cast<double>(most_height) / image.height;
  const auto scaled = [](int32_t length, double scale, int32_t most) {
    const auto floor = static_cast<int32_t>(std::floor(length * scale));
    return std::min(std::max(floor, 1), most);
  };
  const bool fills_width = across < down;
  const Image resized =
      resize(image, fills_width ? most_width : scaled(image.width, down, most_width),
             fills_width ? scaled(image.height, across, most_height) : most_height, filter);
  return place_at(resized, 0, 0, width, height);
}

std::vector<int32_t> order_of_grid(int32_t width, int32_t height, TileGrid grid,
                                   int32_t cells_per_side) {
  const int32_t per_tile = cells_per_side * cells_per_side;
  const int32_t rows = grid.rows * cells_per_side, columns = grid.columns * cells_per_side;
  int32_t spare_rows = 0, spare_columns = 0;  // on each side
  if (static_cast<double>(width) / height > static_cast<double>(columns) / rows) {
    spare_rows = (rows - floor_of_rounded(height * (static_cast<double>(columns) / width))) / 2;
  } else {
    spare_columns = (columns - floor_of_rounded(width * (static_cast<double>(rows) / height))) / 2;
  }
  std::vector<int32_t> order(static_cast<size_t>(per_tile));
  std::iota(order.begin(), order.end(), 0);
  for (int32_t row = spare_rows; row < rows - spare_rows; ++row) {
    for (int32_t column = spare_columns; column < columns - spare_columns; ++column) {
      const int32_t tile =
          // Behind the whole picture's cells.
          1 + row / cells_per_side * grid.columns + column / cells_per_side;
      order.push_back(tile * per_tile + row % cells_per_side * cells_per_side +
                      column % cells_per_side);
    }
    order.push_back(MediaItem::kLineBreak);
  }
  return order;
}

}  // namespace quire
