// How a product of ring_linear.h is cut into tiles, and how its ring in shared memory is laid out:
// plain arithmetic. None of it changes the order of a sum.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {

inline constexpr int kGroupRows = 64;  // of x, of a warpgroup
inline constexpr int kTileColumns[] = {8, 16, 32, 48, 64, 96, 128, 144, 192, 224, 256};
// Of products of eight-bit codes: where groups of inputs are scaled, a lane holds three times the
// sums.
inline constexpr int kEightBitTileColumns[] = {16, 32, 48, 64, 96, 112, 128};

// A tile is 64 rows of x per warpgroup times so many outputs.
struct TileShape {
  int groups = 1;
  int columns = 64;
  int blocks = 1;  // on an SM at once
};

// Whether there is such a tile: two warpgroups read their rows again for every few columns, and
// of gated columns there are two halves of whole eights.
constexpr bool is_tile(const TileShape& shape, bool is_gated) {
  if (is_gated && shape.columns % 16 != 0) return false;
  return shape.groups == 1 || shape.columns >= 32;
}

// Returns how long a product of so many rows and outputs takes in such tiles: of each wave of blocks
// the longer of its products with what comes between tiles, and of fetching what they are made of,
// which costs something however little it is (fitted to an H200; the unit is a product of a row and
// an output).
constexpr int64_t tile_time(const TileShape& shape, int64_t num_rows, int64_t n, int32_t num_sms) {
  constexpr int64_t kBetweenTiles = 1024;
  constexpr int64_t kFetchOfLine = 25;
  constexpr int64_t kLeastLines = 216;
  const int64_t rows = shape.groups * kGroupRows;
  const int64_t tiles = (num_rows + rows - 1) / rows * ((n + shape.columns - 1) / shape.columns);
  const int64_t at_once = int64_t{num_sms} * shape.blocks;
  const int64_t fetch = kFetchOfLine * (shape.blocks * (rows + shape.columns) + kLeastLines);
  return (tiles + at_once - 1) / at_once *
         std::max(shape.blocks * rows * shape.columns + kBetweenTiles, fetch);
}

// Returns how many blocks of such a tile of eight-bit codes an SM has registers for.
constexpr int most_eight_bit_blocks(int groups, int columns) {
  return groups == 1 && columns <= 112 ? 2 : 1;
}

// Returns the tile whose blocks together take least.
constexpr TileShape dense_tile_shape(int64_t num_rows, int64_t n, int32_t num_sms, bool is_gated) {
  TileShape best;
  int64_t least = 0;
  for (const int groups : {1, 2}) {
    for (const int columns : kTileColumns) {
      const TileShape shape{groups, columns};
      if (!is_tile(shape, is_gated)) continue;
      const int64_t time = tile_time(shape, num_rows, n, num_sms);
      if (least != 0 && time > least) continue;
      least = time;
      best = shape;
    }
  }
  return best;
}
constexpr TileShape eight_bit_tile_shape(int64_t num_rows, int64_t n, int32_t num_sms,
                                         bool is_gated) {
  TileShape best;
  int64_t least = 0;
  for (const int groups : {1, 2}) {
    for (const int columns : kEightBitTileColumns) {
      for (int blocks = most_eight_bit_blocks(groups, columns); blocks >= 1; --blocks) {
        const TileShape shape{groups, columns, blocks};
        if (!is_tile(shape, is_gated)) continue;
        const int64_t time = tile_time(shape, num_rows, n, num_sms);
        if (least != 0 && time > least) continue;
        least = time;
        best = shape;
      }
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
  int32_t scale_bytes = 0;   // of a slot

  // Products read 64 rows of x where a panel has fewer: behind the last slot there is room.
  QUIRE_HOST_DEVICE constexpr int32_t weights_at() const { return num_slots * x_bytes; }
  QUIRE_HOST_DEVICE constexpr int32_t scales_at() const {
    return weights_at() + num_slots * weight_bytes + kGroupRows * kPanelRowBytes;
  }
  QUIRE_HOST_DEVICE constexpr int32_t barriers_at() const {
    return scales_at() + num_slots * scale_bytes;
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

// Returns how many panels of 128 bytes of inputs a slot holds: two where one would be a small copy.
constexpr int panels_of_slot(const TileShape& shape) {
  return shape.groups == 1 && shape.columns <= 64 ? 2 : 1;
}

// Returns the ring of as many slots as fit, with room beside it for a small block of the next kernel.
// A block gives back a slot when it has begun the next, so there are at least two.
constexpr Ring dense_ring(const TileShape& shape, int64_t num_rows, bool has_scales = false) {
  constexpr int32_t kSharedBytes = 208 << 10;
  const int32_t panels = panels_of_slot(shape);
  const auto x_rows =
      static_cast<int32_t>(std::min<int64_t>(shape.groups * kGroupRows, (num_rows + 7) / 8 * 8));
  const int32_t lines = shape.groups * kGroupRows + shape.columns;
  Ring ring{.x_bytes = panels * x_rows * kPanelRowBytes,
            .weight_bytes = panels * shape.columns * kPanelRowBytes,
            .scale_bytes = has_scales ? panels * lines * int32_t{sizeof(float)} : 0};
  ring.num_slots = (kSharedBytes / shape.blocks - ring.total_bytes()) /
                   (ring.x_bytes + ring.weight_bytes + ring.scale_bytes + 16);
  return ring;
}

}  // namespace quire::cuda
