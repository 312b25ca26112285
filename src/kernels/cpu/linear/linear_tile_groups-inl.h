// Products of more than two blocks of rows on tiles. A group is some rows and some panels, whose
// chunks of k are multiplied one after the other.
//
// A chunk of a panel (16 KB) stays in the first-level cache for all blocks of rows, with the rows
// of one block (8 KB). The sums of a block (2 KB) are loaded and stored once per chunk. The sums of
// a group (512 KB) and its rows of a chunk (256 KB) stay in the second level. Each further group of
// rows reads all weights again, and each further group of panels all rows.
//
// Tile products hide little of the time for which they wait for memory, so data from further away
// is prefetched: the weights and rows of the next chunk into the second level only (the first has
// no room for two chunks), the sums of the next block and the outputs of a block's last chunk into
// the first. Many outputs are written past the caches instead, so that they are not read first and
// the rows stay in the caches.
//
// A gated product takes a panel of the gate and the panel of the same outputs of up in turn. The
// sums of the gate stay in scratch until those of up are complete.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/linear/linear_outputs-inl.h"
#include "kernels/cpu/linear/linear_tile_blocks-inl.h"
#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/simd/tiles-inl.h"

namespace quire {
namespace {

constexpr int64_t kGroupRows = 512;
constexpr int64_t kGroupPanels = 8;
// With fewer rows the weights are the limit, and gates are applied to slabs of outputs instead.
constexpr int64_t kOwnGateRows = 256;
// The most bytes of packed rows that stay in the second level beside sums and weights.
constexpr int64_t kKeptRowsBytes = 1 << 20;

// The memory that is prefetched during the products of a block, a share per step.
struct ChunkAhead {
  const uint8_t* weights;
  int64_t weight_lines;
  const uint8_t* rows;
  int64_t row_lines;
  const uint8_t* sums;     // of the next block
  const uint8_t* outputs;  // of this block, or null
  int64_t output_stride_bytes;
};
QUIRE_SIMD void prefetch_lines_l2(const uint8_t*& from, int64_t lines) {
  for (int64_t i = 0; i < lines; ++i) prefetch_l2(from + 64 * i);
  from += 64 * lines;
}
QUIRE_SIMD void prefetch_two(const uint8_t* p) {
  prefetch(p);
  prefetch(p + 64);
}
QUIRE_SIMD void prefetch_share(ChunkAhead& ahead) {
  prefetch_lines_l2(ahead.weights, ahead.weight_lines);
  prefetch_lines_l2(ahead.rows, ahead.row_lines);
  constexpr int64_t kRowsPerStep = kTileRows / kTileChunkSteps;
  for (int64_t i = 0; i < kRowsPerStep; ++i) {
    prefetch_two(ahead.sums);
    ahead.sums += kTileBlockSumBytes / kTileRows;
    if (ahead.outputs == nullptr) continue;
    prefetch_two(ahead.outputs);
    ahead.outputs += ahead.output_stride_bytes;
  }
}

// Multiplies one block of rows by the steps of a chunk.
template <class Type>
static void multiply_block(Tiles& tiles, const uint8_t* x, int64_t x_step_bytes, const uint8_t* w,
                           int64_t num_steps, ChunkAhead& ahead) {
  for (int64_t step = 0; step < num_steps; ++step) {
    tiles.template load<kRows>(x, kTileBytes);
    dot_columns<Type, kSum00>(tiles, w);
    prefetch_share(ahead);
    dot_columns<Type, kSum01>(tiles, w + kWeightTileBytes);
    x += x_step_bytes;
    w += kTileStepBytes;
  }
}

// The blocks of rows and the panels of a call. A gated product has two panels for each panel of
// outputs.
struct TileGroup {
  const LinearPanelsArgs& args;
  const TileRowCut& cut;
  int64_t first_block, num_blocks;
  int64_t first_panel, num_panels;
  int64_t num_steps;  // steps of a panel

  bool gated() const { return args.gate != nullptr; }
  bool is_up(int64_t panel) const { return gated() && panel % 2 != 0; }
  // Returns the panel of outputs.
  int64_t output_panel(int64_t panel) const { return first_panel + (gated() ? panel / 2 : panel); }
  const uint8_t* weights(int64_t panel, int64_t step) const {
    const int64_t to_up = is_up(panel) ? args.gate->columns / kPanelWidth : 0;
    const auto* panels = static_cast<const uint8_t*>(args.panels);
    return panels + ((output_panel(panel) + to_up) * num_steps + step) * kTileStepBytes;
  }
  uint8_t* sums(int64_t panel, int64_t block) const {
    auto* scratch = static_cast<uint8_t*>(args.scratch);
    return scratch + (panel * num_blocks + block) * kTileBlockSumBytes;
  }
  const uint8_t* rows(int64_t block, int64_t step) const {
    const int64_t row = cut.first_row(first_block + block);
    return static_cast<const uint8_t*>(args.x) +
           packed_offset(args.m, row, step, chunk_steps(num_steps, step));
  }
};

static bool rows_come_again(const TileGroup& group) {
  return group.num_blocks * kTileRows * group.num_steps * kTileBytes > kKeptRowsBytes;
}

// Stores act(gate) * up of a block whose sums of both are complete. It overwrites the sums.
template <class Type>
static void finish_gated(const TileGroup& group, int64_t panel, int64_t block) {
  const LinearPanelsArgs& args = group.args;
  const int64_t first_row = group.cut.first_row(group.first_block + block);
  const int64_t rows = group.cut.rows(group.first_block + block);
  const Outputs of_gate = outputs_of(args, first_row, group.output_panel(panel));
  const Outputs of_up = columns_from(of_gate, args.gate->columns);
  uint8_t* gate_sums = group.sums(panel - 1, block);
  uint8_t* up_sums = group.sums(panel, block);
  for (int v = 0; v < 2; ++v) {
    auto* gate = reinterpret_cast<float*>(gate_sums + v * kTileSumBytes);
    auto* up = reinterpret_cast<float*>(up_sums + v * kTileSumBytes);
    for (int64_t row = 0; row < rows; ++row) {
      store(gate + 16 * row, with_bias(of_gate, v, row_sums<Type>(of_gate, gate_sums, row, v)));
      store(up + 16 * row, with_bias(of_up, v, row_sums<Type>(of_up, up_sums, row, v)));
    }
    args.gate->activate(args.gate->kind, gate, up, gate, 16 * rows);
    for (int64_t row = 0; row < rows; ++row) {
      put_full(args, of_gate.y + row * args.y_stride + 16 * v, load(gate + 16 * row));
    }
  }
}

template <class Type>
static void finish_group_block(const TileGroup& group, int64_t panel, int64_t block) {
  if (group.is_up(panel)) return finish_gated<Type>(group, panel, block);
  if (group.gated()) return;
  finish_block<Type>(group.args, group.sums(panel, block),
                     group.cut.first_row(group.first_block + block),
                     group.cut.rows(group.first_block + block), group.output_panel(panel));
}

QUIRE_SIMD int64_t share_of(int64_t lines, int64_t parts) { return (lines + parts - 1) / parts; }

// Multiplies a chunk of one panel for all blocks of a group. The group continues with
// `next_weights` and `next_rows`.
template <class Type>
static void multiply_chunk(Tiles& tiles, const TileGroup& group, int64_t panel, int64_t first_step,
                           const uint8_t* next_weights, const uint8_t* next_rows) {
  const LinearPanelsArgs& args = group.args;
  const int64_t num_steps = chunk_steps(group.num_steps, first_step);
  const int64_t weight_lines = share_of(kTileStepLines, group.num_blocks);
  const int64_t row_lines = rows_come_again(group) ? share_of(kTileRows, group.num_panels) : 0;
  const bool ends = first_step + num_steps == group.num_steps;
  const bool reads_outputs = ends && !args.past_caches && (!group.gated() || group.is_up(panel));
  const uint8_t* w = group.weights(panel, first_step);
  for (int64_t i = 0; i < group.num_blocks; ++i) {
    const int64_t block = group.first_block + i;
    uint8_t* sums = group.sums(panel, i);
    if (first_step == 0) {
      tiles.template zero<kSum00>();
      tiles.template zero<kSum01>();
    } else {
      tiles.template load<kSum00>(sums, 64);
      tiles.template load<kSum01>(sums + kTileSumBytes, 64);
    }
    const float* outputs =
        outputs_of(args, group.cut.first_row(block), group.output_panel(panel)).y;
    ChunkAhead ahead{
        .weights = next_weights + i * num_steps * weight_lines * 64,
        .weight_lines = i * weight_lines < kTileStepLines ? weight_lines : 0,
        .rows = next_rows + (panel * group.num_blocks + i) * num_steps * row_lines * 64,
        .row_lines = row_lines,
        .sums = sums + kTileBlockSumBytes,
        .outputs = reads_outputs ? reinterpret_cast<const uint8_t*>(outputs) : nullptr,
        .output_stride_bytes = args.y_stride * int64_t{sizeof(float)}};
    multiply_block<Type>(tiles, group.rows(i, first_step), group.cut.rows(block) * kTileBytes, w,
                         num_steps, ahead);
    tiles.template store<kSum00>(sums, 64);
    tiles.template store<kSum01>(sums + kTileSumBytes, 64);
    if (ends) finish_group_block<Type>(group, panel, i);
  }
}

template <class Type>
static void multiply_group(Tiles& tiles, const TileGroup& group) {
  for (int64_t step = 0; step < group.num_steps; step += kTileChunkSteps) {
    const int64_t next_step = step + kTileChunkSteps < group.num_steps ? step + kTileChunkSteps : 0;
    for (int64_t panel = 0; panel < group.num_panels; ++panel) {
      const bool is_last = panel + 1 == group.num_panels;
      const uint8_t* next_weights =
          is_last ? group.weights(next_step > 0 ? 0 : group.num_panels, next_step)
                  : group.weights(panel + 1, step);
      multiply_chunk<Type>(tiles, group, panel, step, next_weights, group.rows(0, next_step));
    }
  }
}

template <class Type>
static void multiply_groups(const LinearPanelsArgs& args, const TileRowCut& cut,
                            int64_t num_steps) {
  constexpr int64_t kMostBlocks = kGroupRows / kTileRows;
  const int64_t num_groups = (cut.num_blocks + kMostBlocks - 1) / kMostBlocks;
  const int64_t panels_each = args.gate == nullptr ? 1 : 2;
  const int64_t most_panels = kGroupPanels / panels_each;
  Tiles tiles(linear_tile_shapes(cut.tile_rows()));
  for (int64_t g = 0; g < num_groups; ++g) {
    const int64_t first_block = cut.num_blocks * g / num_groups;
    const int64_t end_block = cut.num_blocks * (g + 1) / num_groups;
    for (int64_t panel = 0; panel < args.num_panels; panel += most_panels) {
      const int64_t left = args.num_panels - panel;
      multiply_group<Type>(tiles,
                           {.args = args,
                            .cut = cut,
                            .first_block = first_block,
                            .num_blocks = end_block - first_block,
                            .first_panel = panel,
                            .num_panels = panels_each * (left < most_panels ? left : most_panels),
                            .num_steps = num_steps});
    }
  }
  if (args.past_caches) fence_stores();
}

}  // namespace
}  // namespace quire
