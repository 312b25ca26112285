// The code that both ways of multiplying quantized weights on tiles share: pieces of a panel, and
// the products of rows of activations with its strips, which are bf16 in scratch.
#pragma once

#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

using cpu::CodeKind;
using cpu::kTileBytes;
using cpu::kTileRows;
using cpu::shape_tile;
using cpu::TileShapes;

constexpr int64_t kTileBlockRows = 2 * kTileRows;
constexpr int64_t kStepBytes = kTileRows * kTileBytes;  // in a strip: 32 columns of 16 outputs
constexpr int64_t kSumBytes = kTileRows * 64;
constexpr int64_t kPieceSteps = kQuantSpan / kQuantChunk;

// The tile registers. Registers 0 to 3 are sums, [tile of rows][strip].
constexpr int kRowTile = 4, kColumnTile = 6;

static TileShapes quant_tile_shapes(int64_t rows) {
  TileShapes shapes;
  const bool two = rows > kTileRows;
  const int64_t tile_rows[2] = {two ? kTileRows : rows, two ? rows - kTileRows : 0};
  for (int t = 0; t < 4; ++t) shape_tile(shapes, t, tile_rows[two ? t / 2 : 0], 64);
  shape_tile(shapes, kRowTile, tile_rows[0], kTileBytes);
  if (two) shape_tile(shapes, kRowTile + 1, tile_rows[1], kTileBytes);
  shape_tile(shapes, kColumnTile, kTileRows, kTileBytes);
  shape_tile(shapes, kColumnTile + 1, kTileRows, kTileBytes);
  return shapes;
}

// Columns [k, k + columns) of a panel, at most kQuantSpan and within one span.
struct TilePiece {
  int64_t k;
  int64_t columns;
  int64_t span;
  int64_t first_group;
  int64_t num_groups;
};

static TilePiece piece_at(const QuantLayout& layout, int64_t k) {
  const int64_t span = k / layout.span;
  const int64_t span_end = min_of((span + 1) * layout.span, layout.padded_k);
  const int64_t first_group = span * layout.groups_per_span;
  return {.k = k,
          .columns = min_of(kQuantSpan, span_end - k),
          .span = span,
          .first_group = first_group,
          .num_groups = min_of(layout.num_groups - first_group, layout.groups_per_span)};
}

static GroupWalk walk_from(const QuantLayout& layout, const TilePiece& piece) {
  const int64_t super = piece.first_group / layout.groups_per_super;
  return {.index = piece.first_group * kQuantPanel,
          .super_index = super * kQuantPanel,
          .until_super = (super + 1) * layout.groups_per_super - piece.first_group,
          .span = piece.span};
}

// --- products

template <int COUNT, int T = 0>
QUIRE_SIMD void zero_sums_of(Tiles& tiles) {
  if constexpr (T < COUNT) {
    tiles.template zero<T>();
    zero_sums_of<COUNT, T + 1>(tiles);
  }
}
template <int COUNT, int T = 0>
QUIRE_SIMD void load_sums_of(Tiles& tiles, const uint8_t* from) {
  if constexpr (T < COUNT) {
    tiles.template load<T>(from + T * kSumBytes, 64);
    load_sums_of<COUNT, T + 1>(tiles, from);
  }
}
template <int COUNT, int T = 0>
QUIRE_SIMD void store_sums_of(Tiles& tiles, uint8_t* to) {
  if constexpr (T < COUNT) {
    tiles.template store<T>(to + T * kSumBytes, 64);
    store_sums_of<COUNT, T + 1>(tiles, to);
  }
}

// Multiplies strip S of a step by ROW_TILES tiles of rows, which are loaded.
template <int ROW_TILES, int STRIPS, int S>
QUIRE_SIMD void multiply_strip(Tiles& tiles, const uint8_t* w) {
  constexpr int kColumns = kColumnTile + S % 2;
  tiles.template load<kColumns>(w, kTileBytes);
  tiles.template dot_bf16<S, kRowTile, kColumns>();
  if constexpr (ROW_TILES == 2) tiles.template dot_bf16<STRIPS + S, kRowTile + 1, kColumns>();
}

template <int ROW_TILES>
QUIRE_SIMD void load_rows(Tiles& tiles, const uint8_t* x) {
  tiles.template load<kRowTile>(x, kTileBytes);
  if constexpr (ROW_TILES == 2) {
    tiles.template load<kRowTile + 1>(x + kTileRows * kTileBytes, kTileBytes);
  }
}

// For few rows, a step of the strips is decoded into one half of a scratch while the step before is
// multiplied from the other half, so that neither waits for the other. The sums stay in registers:
// those of four strips, or of two for more than 16 rows.
template <int STRIPS>
struct StreamStep {
  alignas(64) uint8_t values[STRIPS * kStepBytes];
};

// Prefetches the share of strip s of the codes `next`, a chunk of a panel.
template <CodeKind KIND, int STRIPS>
QUIRE_SIMD void prefetch_share(const CodeLines& next, int64_t s) {
  constexpr int kLines = static_cast<int>(chunk_bytes<KIND>() / 64 / STRIPS);
#pragma GCC unroll 16
  for (int line = 0; line < kLines; ++line) {
    prefetch_codes(next, static_cast<int>(s) * kLines + line);
  }
}

// Multiplies the step `before`, if it is not null, while unpack(s, out) decodes the strips s of
// `step`.
template <int ROW_TILES, int STRIPS, class Unpack, int S = 0>
QUIRE_SIMD void stream_step(Tiles& tiles, Unpack unpack, StreamStep<STRIPS>& step,
                            const StreamStep<STRIPS>* before) {
  if constexpr (S < STRIPS) {
    unpack(S, step.values + S * kStepBytes);
    if (before != nullptr) {
      multiply_strip<ROW_TILES, STRIPS, S>(tiles, before->values + S * kStepBytes);
    }
    stream_step<ROW_TILES, STRIPS, Unpack, S + 1>(tiles, unpack, step, before);
  }
}
template <int ROW_TILES, int STRIPS, int S = 0>
QUIRE_SIMD void multiply_step(Tiles& tiles, const StreamStep<STRIPS>& step) {
  if constexpr (S < STRIPS) {
    multiply_strip<ROW_TILES, STRIPS, S>(tiles, step.values + S * kStepBytes);
    multiply_step<ROW_TILES, STRIPS, S + 1>(tiles, step);
  }
}

// A block of rows, at a piece.
struct TileRows {
  int64_t first_row;
  int64_t rows;
  const uint8_t* x;  // from the piece's first step on
};

// Adds the products with strips 2 half and 2 half + 1, for `steps` steps from `first` on, to the
// sums in registers 0 and 1. values: [strip][step].
QUIRE_SIMD void multiply_half(Tiles& tiles, const TileRows& block, const uint8_t* values,
                              int64_t half, int64_t first, int64_t steps) {
  const uint8_t* x = block.x + first * block.rows * kTileBytes;
  const uint8_t* w = values + (2 * half * kPieceSteps + first) * kStepBytes;
  for (const uint8_t* end = w + steps * kStepBytes; w < end; w += kStepBytes) {
    load_rows<1>(tiles, x);
    multiply_strip<1, 2, 0>(tiles, w);
    multiply_strip<1, 2, 1>(tiles, w + kPieceSteps * kStepBytes);
    x += block.rows * kTileBytes;
  }
}

}  // namespace
}  // namespace quire
