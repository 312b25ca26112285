// Scales weights before it multiplies them, which quant_tiles-inl.h uses for short groups.
//
// With u the unit of an output (quant_tables.h), a power of two,
//   w = bf16(half(c * half(u scale) - half(u min)))    weight, rounded to 8 bits of mantissa
//   y = sum over k of w * bf16(x), in steps of 32 columns, ascending, / u
// half() rounds to float16, of which AVX-512 takes twice as many per instruction as of float. Its
// bits moved by three are the bf16 of 2^-112 times the value, so x is multiplied by 2^80 and sums
// by 2^32, which is exact. Weights below 2^-29 of the largest possible weight of their output
// become 0, and activations from 2^47 on become infinite.
#pragma once

#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/tiles/quant_tile_codes-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_factors-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_products-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

constexpr float kActivationFactor = 0x1p80f;
constexpr float kSumFactor = 0x1p32f;

// Decodes one step of strip `s` of a chunk.
template <CodeKind KIND, ZeroKind ZERO>
QUIRE_SIMD void unpack_step(const TileCodes<KIND>& codes, const uint8_t* strip,
                            const StepFactors& factors, int64_t s, uint8_t* out) {
  unpack_pairs<KIND, ZERO, 0, 8>(codes, strip, factors.first[s], out);
  unpack_pairs<KIND, ZERO, 8, 16>(codes, strip, factors.last[s], out + 8 * kTileBytes);
}

// Stores the sums [tile of rows][strip] of `rows` rows by `strips` strips from `first` on to
// outputs.
static void finish_sums(const PanelUnits& units, const Output& output, int64_t first_row,
                        int64_t rows, int64_t first, int64_t strips, const uint8_t* sums) {
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t column = (first + s) * kQuantStrip;
    const F16 factor = div(set1(kSumFactor), load(units.of + column));
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* sum =
          sums + (r / kTileRows * strips + s) * kSumBytes + r % kTileRows * kTileBytes;
      output.finish(first_row + r, column, mul(load(reinterpret_cast<const float*>(sum)), factor));
    }
  }
}

// Multiplies up to 32 rows.
template <CodeKind KIND, ZeroKind ZERO, int ROW_TILES>
static void stream_weights(Tiles& tiles, const QuantPanelsArgs& args, const uint8_t* panel,
                           int64_t first, const Output& output) {
  constexpr int kStrips = 4 / ROW_TILES;
  const QuantLayout& layout = *args.layout;
  const TileCodes<KIND> decoder(*args.values);
  const PanelUnits units(layout, panel);
  alignas(64) StripFactors factors[kQuantSpan / 16 * kQuantStrips];
  StreamStep<kStrips> steps[2];
  alignas(64) uint8_t sums[4 * kSumBytes];
  CodePrefetch ahead(layout, panel);
  const uint8_t* codes = panel + first * layout.strip_bytes;
  const auto* x = reinterpret_cast<const uint8_t*>(args.x);
  zero_sums_of<4>(tiles);
  int64_t current = 0;
  const StreamStep<kStrips>* before = nullptr;
  for (int64_t k = 0; k < layout.padded_k;) {
    const TilePiece piece = piece_at(layout, k);
    piece_factors<KIND>(layout, panel, units, piece, first / 2, kStrips / 2, factors);
    for (const int64_t end = k + piece.columns; k < end; k += kQuantChunk) {
      if (before != nullptr) {
        load_rows<ROW_TILES>(tiles, x);
        x += args.m * kTileBytes;
      }
      const CodeLines next = ahead.take<chunk_bytes<KIND>()>();
      const StepFactors scaled = step_factors(layout, piece, k, factors + first);
      stream_step<ROW_TILES>(
          tiles,
          [&](int64_t s, uint8_t * out) __attribute__((always_inline)) {
            if (first == 0) prefetch_share<KIND, kStrips>(next, s);
            unpack_step<KIND, ZERO>(decoder, codes + s * layout.strip_bytes, scaled, s, out);
          },
          steps[current], before);
      before = &steps[current];
      current ^= 1;
      codes += kQuantStrips * layout.strip_bytes;
    }
  }
  load_rows<ROW_TILES>(tiles, x);
  multiply_step<ROW_TILES>(tiles, *before);
  store_sums_of<4>(tiles, sums);
  finish_sums(units, output, 0, args.m, first, kStrips, sums);
}

template <CodeKind KIND, ZeroKind ZERO>
static void unpack_weights(const QuantPanelsArgs& args, const uint8_t* panel,
                           const PanelUnits& units, const TilePiece& piece, uint8_t* values) {
  const QuantLayout& layout = *args.layout;
  const TileCodes<KIND> decoder(*args.values);
  alignas(64) StripFactors factors[kQuantSpan / 16 * kQuantStrips];
  piece_factors<KIND>(layout, panel, units, piece, 0, 2, factors);
  const uint8_t* codes = panel + piece.k / kQuantChunk * kQuantStrips * layout.strip_bytes;
  for (int64_t c = 0; c < piece.columns; c += kQuantChunk) {
    const StepFactors step = step_factors(layout, piece, piece.k + c, factors);
    for (int64_t s = 0; s < kQuantStrips; ++s) {
      unpack_step<KIND, ZERO>(decoder, codes + s * layout.strip_bytes, step, s,
                              values + (s * kPieceSteps + c / kQuantChunk) * kStepBytes);
    }
    codes += kQuantStrips * layout.strip_bytes;
  }
}

// A piece of a panel for multiply_group() (quant_tiles-inl.h).
template <CodeKind KIND, ZeroKind ZERO>
struct ScaledWeights {
  PanelUnits units;
  const TilePiece& piece;
  const uint8_t* values;

  ScaledWeights(const QuantPanelsArgs& args, const uint8_t* panel, const TilePiece& taken,
                uint8_t* scratch)
      : units(*args.layout, panel), piece(taken), values(scratch) {
    unpack_weights<KIND, ZERO>(args, panel, units, piece, scratch);
  }
  void add(Tiles& tiles, const TileRows& block, int64_t half, uint8_t* sums) const {
    if (piece.k == 0) {
      zero_sums_of<2>(tiles);
    } else {
      load_sums_of<2>(tiles, sums);
    }
    multiply_half(tiles, block, values, half, 0, piece.columns / kQuantChunk);
    store_sums_of<2>(tiles, sums);
  }
  void finish(const Output& output, const TileRows& block, int64_t half,
              const uint8_t* sums) const {
    finish_sums(units, output, block.first_row, block.rows, 2 * half, 2, sums);
  }
};

}  // namespace
}  // namespace quire
