// Products of experts with quantized weights: the codes of kernels/cuda/quant/quant_weight.h,
// decoded in registers. K is cut into four slices that depend on the weight alone. In every kernel,
// products are added within a group, then groups within a slice, then the slices.
#pragma once

#include <cstdint>

#include "kernels/cuda/experts/expert_products.h"
#include "kernels/cuda/quant/quant_args.h"

namespace quire::cuda {

struct QuantExpertArgs : ExpertRowsArgs {
  ExpertStage stage{};
  Stacked<uint8_t> gate;    // for kGatedInside; packed as `weight`, with the same stride
  Stacked<uint8_t> weight;  // packed, each of `layout`
  QuantWeightLayout layout{};
  // As in QuantLinearArgs.
  int32_t chunks_per_group = 0;
  bool has_zeros = false;
  int32_t zero = 0;

  int64_t num_rows = 0;  // of all tiles

  QUIRE_HOST_DEVICE constexpr bool is_gated() const { return stage == ExpertStage::kGatedInside; }
};

// A column is the packed tiles, of 16 outputs each, that are multiplied together. For gated
// products half of them are tiles of the gate, and the others the tiles of `weight` with the same
// numbers.
struct ExpertColumns {
  int tiles;  // of each matrix
  int count;

  QUIRE_HOST_DEVICE constexpr ExpertColumns(const QuantExpertArgs& args, int all_tiles)
      : tiles(args.is_gated() ? all_tiles / 2 : all_tiles),
        count((static_cast<int>(args.layout.num_tiles) + tiles - 1) / tiles) {}
};

inline constexpr int kExpertSlices = 4;
QUIRE_HOST_DEVICE constexpr int expert_slice_begin(int64_t num_chunks, int slice) {
  return static_cast<int>(num_chunks * slice / kExpertSlices);
}

// Returns the inputs of row number `row` among those of all tiles.
QUIRE_DEVICE const bfloat16* expert_inputs(const QuantExpertArgs& args, int64_t row) {
  return args.stage == ExpertStage::kOutputs ? input_row<ExpertStage::kOutputs>(args, row)
                                             : input_row<ExpertStage::kInside>(args, row);
}

// A block's items, for QuantStream and SliceSums: each is a column and a tile of rows.
class QuantExpertItems {
 public:
  using Args = QuantExpertArgs;
  using Distance = int64_t;
  static constexpr bool kPadsInputs = false;

  // The tiles of rows must have been written. `begins_with_gate`: for gated columns, whether the
  // gate's tiles come first.
  QUIRE_DEVICE QuantExpertItems(const QuantExpertArgs& args, const ExpertColumns& columns,
                                bool begins_with_gate = true)
      : count(num_tiles_of(args) * columns.count),
        num_tiles_(num_tiles_of(args)),
        columns_(columns),
        reads_gate_(args.is_gated() && begins_with_gate),
        up_from_gate_(args.is_gated() ? args.weight.first - args.gate.first : 0) {}

  QUIRE_DEVICE int first() const { return ptx::block_index(); }
  QUIRE_DEVICE int step() const { return ptx::num_blocks(); }
  QUIRE_DEVICE int first_tile(int item) const { return place(item).column * columns_.tiles; }
  QUIRE_DEVICE ExpertTile rows(const QuantExpertArgs& args, int item) const {
    return tile_of(args, place(item).tile);
  }
  QUIRE_DEVICE const uint8_t* weight(const QuantExpertArgs& args, int item) const {
    const Stacked<uint8_t>& first = reads_gate_ ? args.gate : args.weight;
    return first.first + rows(args, item).expert * first.stride;
  }
  QUIRE_DEVICE int64_t distance(int /*item*/, int i, int left, int tile_bytes) const {
    return reads_gate_ ? i * up_from_gate_ : (i < left ? i : left) * int64_t{tile_bytes};
  }
  // Rows past the end repeat the last one; their outputs are not stored.
  QUIRE_DEVICE const bfloat16* input_row(const QuantExpertArgs& args, int item, int row) const {
    const ExpertTile tile = rows(args, item);
    return expert_inputs(args, tile.first_row + (row < tile.num_rows ? row : tile.num_rows - 1));
  }

  int count;

 private:
  QUIRE_DEVICE ExpertBlock place(int item) const {
    return expert_item(item, num_tiles_, columns_.count);
  }

  int num_tiles_;
  ExpertColumns columns_;
  bool reads_gate_;
  int64_t up_from_gate_;  // bytes
};

// For tiles of 8, 16 or 32 rows, by products of a warp.
void quant_few_rows_experts(Stream& stream, const QuantExpertArgs& args, const QuantSpec& quant,
                            int tile_rows, int64_t max_tiles);

// For tiles of kPanelRows rows on Hopper, without minima. Inputs are first arranged in panels:
// [chunk of 64 inputs][row of all tiles], 128 bytes each, swizzled from the first row of a tile on,
// with inputs in the order of the weight's codes.
QUIRE_HOST_DEVICE constexpr int64_t expert_panel_bytes(int64_t num_rows, int64_t k) {
  return (k + kQuantTileInputs - 1) / kQuantTileInputs * num_rows * kPanelRowBytes;
}
void quant_many_rows_experts_sm90a(Stream& stream, const QuantExpertArgs& args,
                                   const QuantSpec& quant, int64_t max_tiles, uint8_t* panels);

}  // namespace quire::cuda
