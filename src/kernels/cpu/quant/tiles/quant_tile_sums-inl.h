// Sums scaled after codes were multiplied: what quant_tiles-inl.h does with long groups.
//
//   y = sum over runs, ascending, of scale[g] * (sum over k of c * bf16(x), in steps of 32)
//
// A run is a group, or 256 columns of a longer one and what is left of it. Codes c are exact in
// bf16. With the last run of a group go its zero points times the group's sum of x, taken off
// before the sum is scaled, or its minima times that, taken off after. Each is one multiply-add of
// floats.
#pragma once

#include "kernels/cpu/quant/quant_codes-inl.h"
#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_scales-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/quant_x-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_codes-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_products-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

// Where decoding codes of so many bits costs more than reading them, and scaling sums costs little
// beside the products of a group: with codes of 8 bits reading takes as long as scaling weights.
constexpr int64_t kLongGroup = 128;
constexpr int32_t kMostSummedBits = 4;
QUIRE_SIMD bool scales_sums(const QuantLayout& layout) {
  return layout.group_size >= kLongGroup && layout.spec.bits <= kMostSummedBits;
}

// Minus the sum of a row's activations over each group, [group][rows of the block].
static void pack_group_sums(const PackQuantXArgs& args, int64_t row) {
  const QuantLayout& layout = *args.layout;
  const float* x = args.x + row * args.x_stride;
  for (int64_t g = 0; g < layout.num_groups; ++g) {
    F16 sum = zero();
    const int64_t end = min_of((g + 1) * layout.group_size, layout.padded_k);
    for (int64_t k = g * layout.group_size; k < end; k += 16) {
      sum = add(sum, round_to_bf16(load_x(args, x, k)));
    }
    args.groups[g * args.num_rows + row] = -reduce_add(sum);
  }
}

// The runs of a piece: of whole groups, or one of a part of a group.
struct PieceRuns {
  int64_t count;
  int64_t steps_per_run;
  int64_t num_steps;  // of all: the last run may be shorter
  bool ends_groups;
};
constexpr int64_t kMostRuns = kQuantSpan / kLongGroup;
constexpr int64_t kPieceScales = kMostRuns * kGroupFloats;  // of half a panel

QUIRE_SIMD PieceRuns runs_of(const QuantLayout& layout, const TilePiece& piece) {
  const int64_t run = min_of(layout.group_size, piece.columns);
  const int64_t end = piece.k + piece.columns;
  return {.count = (piece.columns + run - 1) / run,
          .steps_per_run = run / kQuantChunk,
          .num_steps = piece.columns / kQuantChunk,
          .ends_groups = end % layout.group_size == 0 || end == layout.padded_k};
}

static void load_piece_scales(const QuantLayout& layout, const uint8_t* panel,
                              const TilePiece& piece, int64_t first_half, int64_t num_halves,
                              float* scales) {
  for (int64_t half = 0; half < num_halves; ++half) {
    GroupWalk walk = walk_from(layout, piece);
    expand_scales(layout, panel, first_half + half, walk, piece.num_groups,
                  scales + half * kPieceScales);
  }
}

// Up to 16 rows of a piece: what their sums are to be scaled by.
struct RunFactors {
  const float* scales;  // [half][run][2][32] from the first strip on, as expand_scales has them
  const float* groups;  // of the first row and run: run i's at groups + i * group_stride
  int64_t group_stride;
  int64_t rows;
};

// Takes the sums of a piece's runs into the totals, [strip][16 rows][16] both; the sums of run i
// are at sums + i * run_bytes.
template <ZeroKind ZERO, int STRIPS, int RUNS>
static void scale_sums_of(const RunFactors& of, const uint8_t* sums, int64_t run_bytes,
                          uint8_t* totals) {
  for (int64_t s = 0; s < STRIPS; ++s) {
    const float* scales = of.scales + s / 2 * kPieceScales + s % 2 * kQuantStrip;
    F16 scale[RUNS], point[RUNS];
#pragma GCC unroll 2
    for (int64_t i = 0; i < RUNS; ++i) {
      scale[i] = load(scales + i * kGroupFloats);
      point[i] = ZERO == ZeroKind::kNone ? zero() : load(scales + i * kGroupFloats + kQuantHalf);
    }
    for (int64_t r = 0; r < of.rows; ++r) {
      const int64_t at = s * kSumBytes + r * kTileBytes;
      F16 total = load(reinterpret_cast<const float*>(totals + at));
#pragma GCC unroll 2
      for (int64_t i = 0; i < RUNS; ++i) {
        F16 sum = load(reinterpret_cast<const float*>(sums + i * run_bytes + at));
        const float* group = of.groups + i * of.group_stride + r;
        if (ZERO == ZeroKind::kInteger) sum = fused(set1(*group), point[i], sum);
        total = fused(scale[i], sum, total);
        if (ZERO == ZeroKind::kMin) total = fused(set1(*group), point[i], total);
      }
      store(reinterpret_cast<float*>(totals + at), total);
    }
  }
}
template <ZeroKind ZERO, int STRIPS>
static void scale_sums(const PieceRuns& runs, const RunFactors& of, const uint8_t* sums,
                       int64_t run_bytes, uint8_t* totals) {
  if (runs.count == kMostRuns) {
    scale_sums_of<ZERO, STRIPS, kMostRuns>(of, sums, run_bytes, totals);
  } else if (runs.ends_groups) {
    scale_sums_of<ZERO, STRIPS, 1>(of, sums, run_bytes, totals);
  } else {
    scale_sums_of<ZeroKind::kNone, STRIPS, 1>(of, sums, run_bytes, totals);
  }
}

// Does the same for ROW_TILES tiles, which have `of.rows` rows together.
template <ZeroKind ZERO, int ROW_TILES, int STRIPS>
static void scale_tiles(const PieceRuns& runs, RunFactors of, const uint8_t* sums,
                        int64_t run_bytes, uint8_t* totals) {
  const int64_t num_rows = of.rows;
  for (int64_t tile = 0; tile < ROW_TILES; ++tile) {
    const int64_t at = tile * STRIPS * kSumBytes;
    of.rows = min_of(num_rows - tile * kTileRows, kTileRows);
    scale_sums<ZERO, STRIPS>(runs, of, sums + at, run_bytes, totals + at);
    of.groups += kTileRows;
  }
}

// Brings totals of STRIPS strips by up to 16 rows to outputs.
template <int STRIPS>
static void finish_totals(const Output& output, int64_t first_row, int64_t rows,
                          int64_t first_strip, const uint8_t* totals) {
  for (int64_t s = 0; s < STRIPS; ++s) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* total = totals + s * kSumBytes + r * kTileBytes;
      output.finish(first_row + r, (first_strip + s) * kQuantStrip,
                    load(reinterpret_cast<const float*>(total)));
    }
  }
}

// Does the same for ROW_TILES tiles, which have `num_rows` rows together.
template <int ROW_TILES, int STRIPS>
static void finish_tiles(const Output& output, int64_t num_rows, int64_t first_strip,
                         const uint8_t* totals) {
  for (int64_t tile = 0; tile < ROW_TILES; ++tile) {
    const int64_t row = tile * kTileRows;
    finish_totals<STRIPS>(output, row, min_of(num_rows - row, kTileRows), first_strip,
                          totals + tile * STRIPS * kSumBytes);
  }
}

// Multiplies up to 32 rows.
template <CodeKind KIND, ZeroKind ZERO, int ROW_TILES>
static void stream_codes(Tiles& tiles, const QuantPanelsArgs& args, const uint8_t* panel,
                         int64_t first, const Output& output) {
  constexpr int kStrips = 4 / ROW_TILES;
  constexpr int64_t kRunBytes = 4 * kSumBytes;
  const QuantLayout& layout = *args.layout;
  const ExactCodes<KIND> decoder(*args.values);
  alignas(64) float scales[kStrips / 2 * kPieceScales];
  StreamStep<kStrips> steps[2];
  alignas(64) uint8_t sums[kMostRuns * kRunBytes];
  alignas(64) uint8_t totals[kRunBytes] = {};
  CodePrefetch ahead(layout, panel);
  const uint8_t* codes = panel + first * layout.strip_bytes;
  const auto* x = reinterpret_cast<const uint8_t*>(args.x);
  const auto take_rows = [&]() __attribute__((always_inline)) {
    load_rows<ROW_TILES>(tiles, x);
    x += args.m * kTileBytes;
  };
  for (int64_t k = 0; k < layout.padded_k;) {
    const TilePiece piece = piece_at(layout, k);
    const PieceRuns runs = runs_of(layout, piece);
    load_piece_scales(layout, panel, piece, first / 2, kStrips / 2, scales);
    for (int64_t i = 0; i < runs.count; ++i) {
      const int64_t num_steps = min_of(runs.steps_per_run, runs.num_steps - i * runs.steps_per_run);
      const StreamStep<kStrips>* before = nullptr;
      zero_sums_of<4>(tiles);
      for (int64_t step = 0; step < num_steps; ++step) {
        if (before != nullptr) take_rows();
        const CodeLines next = ahead.take<chunk_bytes<KIND>()>();
        stream_step<ROW_TILES>(
            tiles,
            [&](int64_t s, uint8_t * out) __attribute__((always_inline)) {
              if (first == 0) prefetch_share<KIND, kStrips>(next, s);
              decode_exact<0, 16>(decoder, codes + s * layout.strip_bytes, out);
            },
            steps[step % 2], before);
        before = &steps[step % 2];
        codes += kQuantStrips * layout.strip_bytes;
      }
      take_rows();
      multiply_step<ROW_TILES>(tiles, *before);
      store_sums_of<4>(tiles, sums + i * kRunBytes);
    }
    scale_tiles<ZERO, ROW_TILES, kStrips>(runs,
                                          {.scales = scales,
                                           .groups = args.groups + piece.first_group * args.m,
                                           .group_stride = args.m,
                                           .rows = args.m},
                                          sums, kRunBytes, totals);
    k += piece.columns;
  }
  finish_tiles<ROW_TILES, kStrips>(output, args.m, first, totals);
}

// A panel's piece for multiply_group (quant_tiles-inl.h), whose sums are the totals here.
template <CodeKind KIND, ZeroKind ZERO>
struct ScaledSums {
  const QuantPanelsArgs& args;
  const TilePiece& piece;
  const uint8_t* values;
  alignas(64) float scales[2 * kPieceScales];

  ScaledSums(const QuantPanelsArgs& call, const uint8_t* panel, const TilePiece& taken,
             uint8_t* scratch)
      : args(call), piece(taken), values(scratch) {
    const QuantLayout& layout = *args.layout;
    const ExactCodes<KIND> decoder(*args.values);
    const uint8_t* codes = panel + piece.k / kQuantChunk * kQuantStrips * layout.strip_bytes;
    for (int64_t step = 0; step < piece.columns / kQuantChunk; ++step) {
      for (int64_t s = 0; s < kQuantStrips; ++s) {
        decode_exact<0, 16>(decoder, codes, scratch + (s * kPieceSteps + step) * kStepBytes);
        codes += layout.strip_bytes;
      }
    }
    load_piece_scales(layout, panel, piece, 0, 2, scales);
  }
  void add(Tiles& tiles, const TileRows& block, int64_t half, uint8_t* totals) const {
    constexpr int64_t kRunBytes = 2 * kSumBytes;
    alignas(64) uint8_t sums[kMostRuns * kRunBytes];
    if (piece.k == 0) __builtin_memset(totals, 0, kRunBytes);
    const PieceRuns runs = runs_of(*args.layout, piece);
    for (int64_t i = 0; i < runs.count; ++i) {
      const int64_t first = i * runs.steps_per_run;
      zero_sums_of<2>(tiles);
      multiply_half(tiles, block, values, half, first,
                    min_of(runs.steps_per_run, runs.num_steps - first));
      store_sums_of<2>(tiles, sums + i * kRunBytes);
    }
    const float* groups = args.groups + block.first_row * args.layout->num_groups;
    scale_sums<ZERO, 2>(runs,
                        {.scales = scales + half * kPieceScales,
                         .groups = groups + piece.first_group * block.rows,
                         .group_stride = block.rows,
                         .rows = block.rows},
                        sums, kRunBytes, totals);
  }
  void finish(const Output& output, const TileRows& block, int64_t half,
              const uint8_t* totals) const {
    finish_totals<2>(output, block.first_row, block.rows, 2 * half, totals);
  }
};

}  // namespace
}  // namespace quire
