// Multiplies quantized weights on tiles. Codes become bf16 in a scratch that stays in the first
// caches, and are multiplied there like dense bf16 weights (linear_tiles-inl.h).
//
// There are two ways. Codes of up to 4 bits in groups of 128 columns and more are multiplied
// without scales, and sums are scaled at the end of each group (quant_tile_sums-inl.h). With
// shorter groups sums would end too often, so there, and for codes of more bits, weights are scaled
// when they are decoded (quant_tile_weights-inl.h).
//
// Law L4: any number of rows is multiplied by a weight in the same way. The rows of a tile do not
// affect each other, and steps are in order of k both if sums stay in registers and if they are
// stored between.
#pragma once

#include "kernels/cpu/quant/quant_panels-inl.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/quant/quant_x-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_products-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_sums-inl.h"
#include "kernels/cpu/quant/tiles/quant_tile_weights-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

// Packs blocks of rows, each [steps][rows][32] bf16 with zeros past K, times kActivationFactor if
// weights are scaled.
static void pack_tile_x(const PackQuantXArgs& args) {
  const bool by_sums = scales_sums(*args.layout);
  const F16 factor = set1(by_sums ? 1.0f : kActivationFactor);
  for (int64_t r = 0; r < args.num_rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    auto* out = reinterpret_cast<uint16_t*>(args.out) + r * kQuantChunk;
    for (int64_t k = 0; k < args.layout->padded_k; k += kQuantChunk) {
      store_bf16(out, mul(load_x(args, x, k), factor));
      store_bf16(out + 16, mul(load_x(args, x, k + 16), factor));
      out += args.num_rows * kQuantChunk;
    }
    if (by_sums && args.layout->spec.zero_kind != ZeroKind::kNone) pack_group_sums(args, r);
  }
}

// Multiplies up to 32 rows. Each panel is decoded and multiplied at once: STREAM(tiles, args,
// panel, first strip, output) computes some of its strips.
template <class Stream>
QUIRE_SIMD void stream_panels(const QuantPanelsArgs& args, Stream stream) {
  Tiles tiles(quant_tile_shapes(args.m));
  for (int64_t p = 0; p < args.num_panels; ++p) {
    stream(tiles, args.panels + p * args.layout->panel_bytes, output_at(args, 0, p * kQuantPanel));
  }
}

// For more rows, a piece of a panel is decoded to bf16, [strip][step], and multiplied by all blocks
// of rows. Between pieces the sums of a group of blocks and panels are in scratch,
// [panel][block][half][2 tiles]. A block is one tile of rows, so that few registers are in use
// (linear_tile_blocks-inl.h says why).
struct TileGroup {
  int64_t first_block, end_block;
  int64_t first_panel, end_panel;
};

template <class Piece>
static void multiply_group(Tiles& tiles, const QuantPanelsArgs& args, const TileGroup& group) {
  const QuantLayout& layout = *args.layout;
  const cpu::QuantRowCut cut = cpu::quant_row_cut(args.m, args.row_block);
  alignas(64) uint8_t values[kQuantStrips * kPieceSteps * kStepBytes];
  int64_t shaped = 0;
  for (int64_t k = 0; k < layout.padded_k;) {
    const TilePiece taken = piece_at(layout, k);
    const bool ends = k + taken.columns == layout.padded_k;
    auto* sums = static_cast<uint8_t*>(args.scratch);
    for (int64_t p = group.first_panel; p < group.end_panel; ++p) {
      const Piece piece(args, args.panels + p * layout.panel_bytes, taken, values);
      const Output output = output_at(args, 0, p * kQuantPanel);
      for (int64_t b = group.first_block; b < group.end_block; ++b) {
        const int64_t row = cut.first_row(b);
        const int64_t rows = cut.first_row(b + 1) - row;
        if (rows != shaped) tiles.reshape(quant_tile_shapes(shaped = rows));
        const int64_t x_at = (row * layout.padded_k + rows * k) * int64_t{sizeof(uint16_t)};
        const TileRows block{
            .first_row = row, .rows = rows, .x = reinterpret_cast<const uint8_t*>(args.x) + x_at};
        for (int64_t half = 0; half < 2; ++half) {
          piece.add(tiles, block, half, sums);
          if (ends) piece.finish(output, block, half, sums);
          sums += 2 * kSumBytes;
        }
      }
    }
    k += taken.columns;
  }
}

template <class Piece>
static void multiply_groups(const QuantPanelsArgs& args) {
  Tiles tiles(quant_tile_shapes(kTileRows));
  const int64_t num_blocks = cpu::quant_row_cut(args.m, args.row_block).count;
  const int64_t most_blocks = cpu::kQuantTileGroupRows / kTileRows;
  for (int64_t b = 0; b < num_blocks; b += most_blocks) {
    for (int64_t p = 0; p < args.num_panels; p += cpu::kQuantTileGroupPanels) {
      multiply_group<Piece>(tiles, args,
                            {.first_block = b,
                             .end_block = min_of(b + most_blocks, num_blocks),
                             .first_panel = p,
                             .end_panel = min_of(p + cpu::kQuantTileGroupPanels, args.num_panels)});
    }
  }
}

template <CodeKind KIND, ZeroKind ZERO>
static void scaled_sums_panels(const QuantPanelsArgs& args) {
  if (args.m > kTileBlockRows) return multiply_groups<ScaledSums<KIND, ZERO>>(args);
  stream_panels(args, [&](Tiles& tiles, const uint8_t* panel, const Output& output) {
    if (args.m <= kTileRows) return stream_codes<KIND, ZERO, 1>(tiles, args, panel, 0, output);
    stream_codes<KIND, ZERO, 2>(tiles, args, panel, 0, output);
    stream_codes<KIND, ZERO, 2>(tiles, args, panel, 2, output);
  });
}

template <CodeKind KIND, ZeroKind ZERO>
static void scaled_weights_panels(const QuantPanelsArgs& args) {
  if (args.m > kTileBlockRows) return multiply_groups<ScaledWeights<KIND, ZERO>>(args);
  stream_panels(args, [&](Tiles& tiles, const uint8_t* panel, const Output& output) {
    if (args.m <= kTileRows) return stream_weights<KIND, ZERO, 1>(tiles, args, panel, 0, output);
    stream_weights<KIND, ZERO, 2>(tiles, args, panel, 0, output);
    stream_weights<KIND, ZERO, 2>(tiles, args, panel, 2, output);
  });
}

template <CodeKind KIND, ZeroKind ZERO>
static void quant_tile_panels_of(const QuantPanelsArgs& args) {
  if (scales_sums(*args.layout)) return scaled_sums_panels<KIND, ZERO>(args);
  scaled_weights_panels<KIND, ZERO>(args);
}
template <CodeKind KIND>
static void quant_tile_panels(const QuantPanelsArgs& args) {
  switch (args.layout->spec.zero_kind) {
    case ZeroKind::kNone:
      return quant_tile_panels_of<KIND, ZeroKind::kNone>(args);
    case ZeroKind::kInteger:
      return quant_tile_panels_of<KIND, ZeroKind::kInteger>(args);
    case ZeroKind::kMin:
      return quant_tile_panels_of<KIND, ZeroKind::kMin>(args);
  }
}

// The table that the object files of AMX and of its emulation export.
constexpr cpu::QuantKernels kQuantOverTiles = {
    .fused_rows = kTileBlockRows,
    .row_block = kTileRows,
    .small_group_rows = kTileRows,
    .x_padding = 0,
    .pair_slots = 1,
    .group_slots = 1,
    .scratch_rows = cpu::kQuantTileGroupRows,
    .scratch_row_bytes = cpu::kQuantTileGroupPanels * kQuantPanel * 4,
    .pack_x = {nullptr, &pack_tile_x, nullptr},
    .panels = {&quant_tile_panels<cpu::kCode2>, &quant_tile_panels<cpu::kCode3>,
               &quant_tile_panels<cpu::kCode4>, &quant_tile_panels<cpu::kCode5>,
               &quant_tile_panels<cpu::kCode6>, &quant_tile_panels<cpu::kCode8>,
               &quant_tile_panels<cpu::kTable4>, &quant_tile_panels<cpu::kTable8>},
};

}  // namespace
}  // namespace quire
