// How a product of dense_linear() is cut into tiles, and how its ring in shared memory is laid out:
// plain arithmetic. None of it changes the order of a sum.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {

inline constexpr int kGroupRows = 64;  // of x, of a warpgroup
inline constexpr int kTileColumns[] = {8, 16, 32, 48, 64, 96, 128, 144, 192, 224, 256};

// A tile is 64 rows of x per warpgroup times so many outputs.
struct TileShape {
  int groups = 1;
  int columns = 64;
};

// Whether there is such a tile: two warpgroups read their rows again for every few columns, and
// of gated columns there are two halves of whole eights.
constexpr bool is_tile(const TileShape& shape, bool is_gated) {
  if (is_gated && shape.columns % 16 != 0) return false;
  return shape.groups == 1 || shape.columns >= 32;
}

// Returns the tile for a product of so many rows and outputs: the one whose blocks together take
// least. A tile takes the longer of its products with what comes between tiles, and of fetching
// what they are made of, which costs something however little it is (fitted to an H200; the unit is
// a product of a row and an output).
constexpr TileShape dense_tile_shape(int64_t num_rows, int64_t n, int32_t num_sms, bool is_gated) {
  constexpr int64_t kBetweenTiles = 1024;
  constexpr int64_t kFetchOfLine = 25;
  constexpr int64_t kLeastLines = 216;
  TileShape best;
  int64_t least = 0;
  for (const int groups : {1, 2}) {
    const int64_t rows = groups * kGroupRows;
    for (const int columns : kTileColumns) {
      if (!is_tile({groups, columns}, is_gated)) continue;
      const int64_t tiles = (num_rows + rows - 1) / rows * ((n + columns - 1) / columns);
      const int64_t fetch = kFetchOfLine * (rows + columns + kLeastLines);
      const int64_t time =
          (tiles + num_sms - 1) / num_sms * std::max(rows * columns + kBetweenTiles, fetch);
      if (least != 0 && time > least) continue;
      least = time;
      best = {groups, columns};
    }
  }
  return best;
}

// Tiles go in bands of 16 tiles of rows, within a band by outputs first: the tiles that run at once
// are about as many rows as outputs, so that the cache serves most of what they read.
struct TileOrder {
  int32_t row_tiles = 1;
  int32_t column_tiles = 1;
  QUIRE_HOST_DEVICE constexpr int32_t num_tiles() const { return row_tiles * column_tiles; }
};
struct TilePlace {
  int32_t row = 0;
  int32_t column = 0;
};
QUIRE_HOST_DEVICE constexpr TilePlace tile_place(const TileOrder& order, int32_t tile) {
  constexpr int32_t kBand = 16;
  const int32_t band = tile / (kBand * order.column_tiles) * kBand;
  const int32_t in_band = tile - band * order.column_tiles;
  const int32_t height = order.row_tiles - band < kBand ? order.row_tiles - band : kBand;
  return {band + in_band % height, in_band / height};
}

// The ring of panels of x and of the weight in shared memory. A slot holds one step along k of both.
// Where a tile has fewer lines than a panel, what lies behind them is multiplied too and not kept.
struct Ring {
  int32_t num_slots = 0;
  int32_t x_bytes = 0;       // of a slot
  int32_t weight_bytes = 0;  // of a slot

  // Products read 64 rows of x where a panel has fewer: behind the last slot there is room.
  QUIRE_HOST_DEVICE constexpr int32_t weights_at() const { return num_slots * x_bytes; }
  QUIRE_HOST_DEVICE constexpr int32_t barriers_at() const {
    return weights_at() + num_slots * weight_bytes + kGroupRows * kPanelRowBytes;
  }
  QUIRE_HOST_DEVICE constexpr int32_t total_bytes() const { return barriers_at() + num_slots * 16; }
};

// Lines are cut into parts of `part`, of which the last may be shorter.
struct Parts {
  int32_t count = 1;
  int32_t last = 1;  // lines to fetch of the last part: whole groups of eight
};
constexpr Parts parts_of(int64_t lines, int32_t part) {
  const auto count = static_cast<int32_t>((lines + part - 1) / part);
  const auto last = static_cast<int32_t>(lines - int64_t{count - 1} * part);
  return {count, (last + 7) / 8 * 8};
}

// Returns how many panels of 64 inputs a slot holds: two where one would be a small copy.
constexpr int panels_of_slot(const TileShape& shape) {
  return shape.groups == 1 && shape.columns <= 64 ? 2 : 1;
}

// Returns the ring of as many slots as fit, with room beside it for a small block of the next kernel.
// A block gives back a slot when it has begun the next, so there are at least two.
constexpr Ring dense_ring(const TileShape& shape, int64_t num_rows) {
  constexpr int32_t kSharedBytes = 208 << 10;
  const int32_t panels = panels_of_slot(shape);
  const auto x_rows =
      static_cast<int32_t>(std::min<int64_t>(shape.groups * kGroupRows, (num_rows + 7) / 8 * 8));
  Ring ring{.x_bytes = panels * x_rows * kPanelRowBytes,
            .weight_bytes = panels * shape.columns * kPanelRowBytes};
  ring.num_slots = (kSharedBytes - ring.total_bytes()) / (ring.x_bytes + ring.weight_bytes + 16);
  return ring;
}

}  // namespace quire::cuda
