// The linear kernels over tile registers, for bf16 and int8 weights.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/linear/int8_rows-inl.h"
#include "kernels/cpu/linear/linear_outputs-inl.h"
#include "kernels/cpu/linear/linear_tile_blocks-inl.h"
#include "kernels/cpu/linear/linear_tile_groups-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

// Multiplies at most two blocks of rows: every panel is read once, from its first step to its last.
template <class Type>
static void stream_panels(const LinearPanelsArgs& args, const TileRowCut& cut, int64_t num_steps) {
  alignas(64) uint8_t sums[kTileStreamBlocks * kTileBlockSumBytes];
  Tiles tiles(linear_tile_shapes(cut.tile_rows()));
  const bool two = cut.num_blocks == 2;
  const auto* x = static_cast<const uint8_t*>(args.x);
  const auto* w = static_cast<const uint8_t*>(args.panels);
  StreamAhead ahead{w + kTileStreamAhead};
  for (int64_t panel = 0; panel < args.num_panels; ++panel) {
    tiles.template zero<kSum00>();
    tiles.template zero<kSum01>();
    if (two) {
      tiles.template zero<kSum10>();
      tiles.template zero<kSum11>();
    }
    for (int64_t step = 0; step < num_steps; step += kTileChunkSteps) {
      const int64_t steps = chunk_steps(num_steps, step);
      const uint8_t* x0 = x + packed_offset(args.m, 0, step, steps);
      if (two) {
        const uint8_t* x1 = x + packed_offset(args.m, cut.rows(0), step, steps);
        multiply_two<Type>(tiles, x0, cut.rows(0) * kTileBytes, x1, cut.rows(1) * kTileBytes, w,
                           steps, ahead);
      } else {
        multiply_one<Type>(tiles, x0, args.m * kTileBytes, w, steps, ahead);
      }
      w += steps * kTileStepBytes;
    }
    tiles.template store<kSum00>(sums, 64);
    tiles.template store<kSum01>(sums + kTileSumBytes, 64);
    finish_block<Type>(args, sums, 0, cut.rows(0), panel);
    if (two) {
      tiles.template store<kSum10>(sums + 2 * kTileSumBytes, 64);
      tiles.template store<kSum11>(sums + 3 * kTileSumBytes, 64);
      finish_block<Type>(args, sums + kTileBlockSumBytes, cut.rows(0), cut.rows(1), panel);
    }
  }
}

template <class Type>
static void linear_tile_panels(const LinearPanelsArgs& args) {
  const int64_t num_steps = args.padded_k * Type::kElementBytes / kTileBytes;
  const TileRowCut cut(args.m);
  if (cut.num_blocks <= kTileStreamBlocks) return stream_panels<Type>(args, cut, num_steps);
  multiply_groups<Type>(args, cut, num_steps);
}

// Calls put(step, to) for each step of a row. Its 64 bytes go to `to`.
template <typename Put>
QUIRE_SIMD void pack_tile_row(const PackXArgs& args, int64_t row, int64_t num_steps, Put&& put) {
  const int64_t row_in_block = args.first_row - args.block_row + row;
  for (int64_t first = 0; first < num_steps; first += kTileChunkSteps) {
    const int64_t steps = chunk_steps(num_steps, first);
    uint8_t* to = static_cast<uint8_t*>(args.out) +
                  packed_offset(args.m, args.block_row, first, steps) + row_in_block * kTileBytes;
    for (int64_t step = first; step < first + steps; ++step) {
      put(step, to);
      to += args.block_rows * kTileBytes;
    }
  }
}

static void pack_x_tiles_bf16(const PackXArgs& args) {
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    pack_tile_row(args, row, args.padded_k / 32, [&](int64_t step, uint8_t* out) {
      const int64_t k = 32 * step;
      const int64_t left = args.k - k;
      auto* to = reinterpret_cast<uint16_t*>(out);
      store_bf16(to, left >= 16 ? load(x + k) : load_n(x + k, left));
      store_bf16(to + 16,
                 left >= 32 ? load(x + k + 16) : load_n(x + k + 16, left > 16 ? left - 16 : 0));
    });
  }
}

static void pack_x_tiles_int8(const PackXArgs& args) {
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const RowCodes codes = row_codes(args, row);
    pack_tile_row(args, row, args.padded_k / 64, [&](int64_t step, uint8_t* out) {
      for (int64_t i = 0; i < 64; i += 16) {
        store_codes(codes, 64 * step + i, reinterpret_cast<int8_t*>(out + i));
      }
    });
  }
}

// The table that the object files of AMX and of its emulation export.
constexpr cpu::LinearKernels kLinearOverTiles = {
    .row_block = kTileRows,
    .layout = cpu::PanelLayout::kTiles,
    .x_bytes = 2,
    .x_padding = 0,
    .rows_apart = true,
    .least_own_gate_rows = kOwnGateRows,
    .least_panels = kGroupPanels / 2,
    .scratch_bytes = kGroupRows * kGroupPanels * kPanelWidth * 4,
    .pack_x = nullptr,
    .pack_x_bf16 = &pack_x_tiles_bf16,
    .panels = {nullptr, &linear_tile_panels<Bf16Tiles>, nullptr},
    .panels_int8 = nullptr,
};
constexpr cpu::LinearKernels kLinearInt8OverTiles = {
    .row_block = kTileRows,
    .layout = cpu::PanelLayout::kTiles,
    .x_bytes = 1,
    .x_padding = 0,
    .rows_apart = true,
    .least_own_gate_rows = kOwnGateRows,
    .least_panels = kGroupPanels / 2,
    .scratch_bytes = kGroupRows * kGroupPanels * kPanelWidth * 4,
    .pack_x = &pack_x_tiles_int8,
    .pack_x_bf16 = nullptr,
    .panels = {},
    .panels_int8 = &linear_tile_panels<Int8Tiles>,
};

}  // namespace
}  // namespace quire
