// How a product of ring_linear.h is cut into tiles, and the layout of its ring in shared memory, as
// arithmetic on plain numbers. None of it changes the order of a sum.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {

inline constexpr int kGroupRows = 64;  // rows of x of each warpgroup
inline constexpr int kTileColumns[] = {8, 16, 32, 48, 64, 96, 128, 144, 192, 224, 256};
// For products of eight-bit codes: if groups of inputs have scales, a lane holds three times as
// many sums.
inline constexpr int kEightBitTileColumns[] = {16, 32, 48, 64, 96, 112, 128};

// A tile is 64 rows of x per warpgroup times `columns` columns.
struct TileShape {
  int groups = 1;
  int columns = 64;
  int blocks = 1;  // that run on an SM at once
};

// Returns whether the tile may be used. With two warpgroups, few columns would mean reading rows
// too often; gated columns consist of two halves that are multiples of eight.
constexpr bool is_tile(const TileShape& shape, bool is_gated) {
  if (is_gated && shape.columns % 16 != 0) return false;
  return shape.groups == 1 || shape.columns >= 32;
}

// Returns an estimate of how long a product of so many rows and outputs takes in such tiles. For
// each wave of blocks it is the greater of two times: that of the products plus the work between
// tiles, and that of fetching the operands, which has a minimum (fitted to an H200; the unit is the
// product of one row and one output).
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

// Returns how many blocks with such a tile of eight-bit codes fit the registers of an SM.
constexpr int most_eight_bit_blocks(int groups, int columns) {
  return groups == 1 && columns <= 112 ? 2 : 1;
}

// Returns the tile with which the product takes the least time.
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

// Tiles are processed in bands of 16 tiles of rows, and in a band column by column. So the tiles
// that run at once cover about as many rows as outputs, and the cache serves most of what they
// read.
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

// The ring of panels of x and of the weight in shared memory. A slot holds one step along k of
// both. If a tile has fewer lines than a panel, the memory behind them is multiplied too, but its
// results are not used.
struct Ring {
  int32_t num_slots = 0;
  int32_t x_bytes = 0;       // of each slot
  int32_t weight_bytes = 0;  // of each slot
  int32_t scale_bytes = 0;   // of each slot

  // Products read 64 rows of x even if a panel has fewer, so there is room behind the last slot.
  QUIRE_HOST_DEVICE constexpr int32_t weights_at() const { return num_slots * x_bytes; }
  QUIRE_HOST_DEVICE constexpr int32_t scales_at() const {
    return weights_at() + num_slots * weight_bytes + kGroupRows * kPanelRowBytes;
  }
  QUIRE_HOST_DEVICE constexpr int32_t barriers_at() const {
    return scales_at() + num_slots * scale_bytes;
  }
  QUIRE_HOST_DEVICE constexpr int32_t total_bytes() const { return barriers_at() + num_slots * 16; }
};

// Lines are cut into parts of `part` lines, of which the last may be shorter.
struct Parts {
  int32_t count = 1;
  int32_t last = 1;  // lines to fetch for the last part, rounded up to groups of eight
};
constexpr Parts parts_of(int64_t lines, int32_t part) {
  const auto count = static_cast<int32_t>((lines + part - 1) / part);
  const auto last = static_cast<int32_t>(lines - int64_t{count - 1} * part);
  return {count, (last + 7) / 8 * 8};
}

// Returns how many panels of 128 bytes of inputs a slot holds: two if a single panel would be a
// small copy.
constexpr int panels_of_slot(const TileShape& shape) {
  return shape.groups == 1 && shape.columns <= 64 ? 2 : 1;
}

// Returns the ring with as many slots as fit, leaving room for a small block of the next kernel. A
// block releases a slot after it has begun the next one, so there are at least two slots.
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
