// The code that all tile kernels of linear() share: how rows are packed, and the products of blocks
// of rows with panels. bf16 and int8 weights have the same layout in bytes.
//
// A step is 64 bytes of k: one tile of up to 16 rows of activations times two tiles of 16 columns
// of a panel, into two tiles of sums. Steps are in order of k for any number of rows, and the rows
// of a tile do not affect each other, so the bits of a row depend on that row alone (law L4).
//
// As few tile registers as possible are in use at a time. The unit renames them from a pool of
// about nine while another hardware thread runs on the core (hosts of virtual machines always run
// one). With four in use products and loads overlap, with eight each waits for the one before it: 4
// registers are 1.9 times as fast as 8 on a shared core, and 5 % slower on a core that is not
// shared.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/linear/linear_outputs-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

using cpu::kTileBytes;
using cpu::kTileRows;
using cpu::shape_tile;
using cpu::TileShapes;

constexpr int64_t kTileStepBytes = kPanelWidth * kTileBytes;  // a step of a panel
constexpr int64_t kTileStepLines = kTileStepBytes / 64;
constexpr int64_t kWeightTileBytes = kTileRows * kTileBytes;  // the same for half a panel
constexpr int64_t kTileSumBytes = kTileRows * 64;
constexpr int64_t kTileBlockSumBytes = 2 * kTileSumBytes;
// With up to this many blocks of rows, the weights are read once and prefetched this far ahead.
constexpr int64_t kTileStreamBlocks = 2;
constexpr int64_t kTileStreamAhead = kTileStepBytes;
// More blocks multiply this many steps of a panel at a time (linear_tile_groups-inl.h).
constexpr int64_t kTileChunkSteps = 8;

// The tile registers: sums of two blocks of rows by the two halves of a panel, and operands.
enum TileRegister : int { kSum00, kSum01, kSum10, kSum11, kRows, kColumns, kColumns1 };

static TileShapes linear_tile_shapes(int64_t block_rows) {
  TileShapes shapes;
  for (int sum = kSum00; sum <= kSum11; ++sum) shape_tile(shapes, sum, block_rows, 64);
  shape_tile(shapes, kRows, block_rows, kTileBytes);
  shape_tile(shapes, kColumns, kTileRows, kTileBytes);
  shape_tile(shapes, kColumns1, kTileRows, kTileBytes);
  return shapes;
}

// How rows are cut into blocks of up to 16 whose sizes differ by at most one. All blocks use tiles
// of one shape: a shorter block also computes the row after it and drops that.
struct TileRowCut {
  int64_t num_blocks;
  int64_t small_rows;
  int64_t num_large;  // the first blocks, which have one row more

  explicit TileRowCut(int64_t m)
      : num_blocks((m + kTileRows - 1) / kTileRows),
        small_rows(m / num_blocks),
        num_large(m % num_blocks) {}
  int64_t tile_rows() const { return small_rows + (num_large > 0 ? 1 : 0); }
  int64_t rows(int64_t block) const { return small_rows + (block < num_large ? 1 : 0); }
  int64_t first_row(int64_t block) const {
    return block * small_rows + (block < num_large ? block : num_large);
  }
};

// Packed activations are [chunk][block][step][row][64 bytes]. Data that is used together is
// contiguous, and blocks are not large powers of two apart, which would map them to the same cache
// sets. This returns where the block from `first_row` on begins in the chunk of `num_steps` steps
// from `first_step` on.
QUIRE_SIMD int64_t packed_offset(int64_t m, int64_t first_row, int64_t first_step,
                                 int64_t num_steps) {
  return (first_step * m + first_row * num_steps) * kTileBytes;
}

QUIRE_SIMD int64_t chunk_steps(int64_t num_steps, int64_t first_step) {
  const int64_t left = num_steps - first_step;
  return left < kTileChunkSteps ? left : kTileChunkSteps;
}

struct Bf16Tiles {
  using Sum = float;
  static constexpr int64_t kElementBytes = 2;
  template <int C, int A, int B>
  static inline __attribute__((always_inline)) void dot(Tiles& tiles) {
    tiles.template dot_bf16<C, A, B>();
  }
};
struct Int8Tiles {
  using Sum = int32_t;
  static constexpr int64_t kElementBytes = 1;
  template <int C, int A, int B>
  static inline __attribute__((always_inline)) void dot(Tiles& tiles) {
    tiles.template dot_s8<C, A, B>();
  }
};

// Prefetches a stream of weights during products, a few lines at a time, because a burst of
// prefetches slows the tiles. There are `parts` calls per step.
struct StreamAhead {
  const uint8_t* weights;
};
QUIRE_SIMD void prefetch_part(StreamAhead& ahead, int64_t parts) {
  const int64_t lines = kTileStepLines / parts;
  for (int64_t i = 0; i < lines; ++i) prefetch(ahead.weights + 64 * i);
  ahead.weights += 64 * lines;
}

template <class Type, int Sum>
QUIRE_SIMD void dot_columns(Tiles& tiles, const uint8_t* w) {
  tiles.template load<kColumns>(w, kTileBytes);
  Type::template dot<Sum, kRows, kColumns>(tiles);
}

// Multiplies one block of rows by some steps of a panel.
template <class Type, class Ahead>
static void multiply_one(Tiles& tiles, const uint8_t* x, int64_t x_step_bytes, const uint8_t* w,
                         int64_t num_steps, Ahead& ahead) {
  for (int64_t step = 0; step < num_steps; ++step) {
    tiles.template load<kRows>(x, kTileBytes);
    dot_columns<Type, kSum00>(tiles, w);
    prefetch_part(ahead, 2);
    dot_columns<Type, kSum01>(tiles, w + kWeightTileBytes);
    prefetch_part(ahead, 2);
    x += x_step_bytes;
    w += kTileStepBytes;
  }
}

// Multiplies two blocks of rows by some steps of a panel.
template <class Type>
static void multiply_two(Tiles& tiles, const uint8_t* x0, int64_t x0_step_bytes, const uint8_t* x1,
                         int64_t x1_step_bytes, const uint8_t* w, int64_t num_steps,
                         StreamAhead& ahead) {
  for (int64_t step = 0; step < num_steps; ++step) {
    tiles.template load<kRows>(x0, kTileBytes);
    dot_columns<Type, kSum00>(tiles, w);
    prefetch_part(ahead, 4);
    tiles.template load<kColumns1>(w + kWeightTileBytes, kTileBytes);
    Type::template dot<kSum01, kRows, kColumns1>(tiles);
    prefetch_part(ahead, 4);
    tiles.template load<kRows>(x1, kTileBytes);
    Type::template dot<kSum11, kRows, kColumns1>(tiles);
    prefetch_part(ahead, 4);
    Type::template dot<kSum10, kRows, kColumns>(tiles);
    prefetch_part(ahead, 4);
    x0 += x0_step_bytes;
    x1 += x1_step_bytes;
    w += kTileStepBytes;
  }
}

// Returns columns [16 * v, 16 * v + 16) of one row of a block's sums, scaled.
template <class Type>
QUIRE_SIMD F16 row_sums(const Outputs& out, const uint8_t* sums, int64_t row, int v) {
  const uint8_t* p = sums + v * kTileSumBytes + row * 64;
  if constexpr (Type::kElementBytes == 1) {
    return scaled(out, row, v, load_i32(reinterpret_cast<const int32_t*>(p)));
  } else {
    return load(reinterpret_cast<const float*>(p));
  }
}
QUIRE_SIMD F16 with_bias(const Outputs& out, int v, F16 sums) {
  return out.bias == nullptr ? sums : add(sums, load(out.bias + 16 * v));
}
QUIRE_SIMD void put_full(const LinearPanelsArgs& args, float* y, F16 v) {
  args.past_caches ? store_past_caches(y, v) : store(y, v);
}

template <class Type>
static void finish_block(const LinearPanelsArgs& args, const uint8_t* sums, int64_t first_row,
                         int64_t rows, int64_t panel) {
  const Outputs out = outputs_of(args, first_row, panel);
  for (int64_t row = 0; row < rows; ++row) {
    for (int v = 0; v < 2; ++v) {
      const F16 sum = row_sums<Type>(out, sums, row, v);
      if (args.past_caches && out.num_columns >= kPanelWidth) {
        store_past_caches(out.y + row * out.y_stride + 16 * v, with_bias(out, v, sum));
      } else {
        finish(out, row, v, sum);
      }
    }
  }
}

}  // namespace
}  // namespace quire
