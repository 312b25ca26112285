// The arguments of kernels that multiply by quantized weights.
#pragma once

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/quant/quant_shapes.h"
#include "kernels/cuda/quant/quant_weight.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {

struct QuantLinearArgs {
  const bfloat16* x = nullptr;  // [M, K padded to chunks], in the weight's order of columns
  int64_t x_stride = 0;         // rows begin at multiples of 16 bytes
  const uint8_t* weight = nullptr;
  QuantWeightLayout layout{};
  int32_t chunks_per_group = 0;  // of the layout
  bool has_zeros = false;        // each group has its own; else `zero` is used for all
  int32_t zero = 0;
  int64_t n = 0;
  int64_t num_rows = 0;
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t y_stride = 0;
  bool y_is_float = false;
  bool accumulate = false;
  int32_t parts = 1;            // K is cut into 1, 2, 4 or 8 parts
  float* slice_sums = nullptr;  // used with more than one part
};

// Returns the first chunk of a slice. For kQuantSlices it returns the end.
QUIRE_HOST_DEVICE constexpr int slice_begin(int64_t num_chunks, int slice) {
  return static_cast<int>(num_chunks * slice / kQuantSlices);
}

// A block takes items one after another: some tiles of outputs x some rows. If there are few items,
// each is cut into parts along K, of some slices each.
struct QuantItems {
  int tiles;  // of an item
  int row_blocks;
  int count;
  int parts;
  int row_block_rows;

  QUIRE_HOST_DEVICE constexpr QuantItems(const QuantLinearArgs& args, int tiles, int rows)
      : tiles(tiles),
        row_blocks(static_cast<int>((args.num_rows + rows - 1) / rows)),
        count(static_cast<int>((args.layout.num_tiles + tiles - 1) / tiles) * row_blocks),
        parts(args.parts),
        row_block_rows(rows) {}
  // A single block of rows needs no division.
  QUIRE_HOST_DEVICE constexpr int first_tile(int item) const {
    return (row_blocks == 1 ? item : item / row_blocks) * tiles;
  }
  QUIRE_HOST_DEVICE constexpr int row_block(int item) const {
    return row_blocks == 1 ? 0 : item % row_blocks;
  }
  // The first item of the block; all its items have the same part.
  QUIRE_DEVICE int first() const { return ptx::block_index() / parts; }
  QUIRE_DEVICE int step() const { return ptx::num_blocks() / parts; }
  QUIRE_DEVICE int first_slice() const {
    return ptx::block_index() % parts * (kQuantSlices / parts);
  }
  QUIRE_DEVICE int end_slice() const { return first_slice() + kQuantSlices / parts; }

  // Members that QuantStream and SliceSums require of every class of items.
  using Args = QuantLinearArgs;
  using Distance = int;
  static constexpr bool kPadsInputs = true;  // rows of x are padded to whole chunks
  QUIRE_DEVICE static const uint8_t* weight(const QuantLinearArgs& args, int /*item*/) {
    return args.weight;
  }
  // Returns the distance in bytes from an item's first tile to tile i, with tiles of tile_bytes.
  // The last existing tile is `left` tiles after the first; tiles past it repeat it.
  QUIRE_DEVICE static int distance(int /*item*/, int i, int left, int tile_bytes) {
    return (i < left ? i : left) * tile_bytes;
  }
  // Rows past the end repeat the last one; their outputs are not stored.
  QUIRE_DEVICE const bfloat16* input_row(const QuantLinearArgs& args, int item, int row) const {
    const int wanted = row_block(item) * row_block_rows + row;
    const auto last = static_cast<int>(args.num_rows) - 1;
    return args.x + (wanted < last ? wanted : last) * args.x_stride;
  }
};

// Returns how many chunks, from this one on, belong to its group.
template <class Args>
QUIRE_HOST_DEVICE constexpr int chunks_of_first_group(const Args& args, int chunk) {
  return args.chunks_per_group == 0 ? 1 : args.chunks_per_group - chunk % args.chunks_per_group;
}

// Writes the inputs to `rows` in the weight's order of columns, padded with zeros to whole chunks.
void arrange_rows(Stream& stream, const QuantLinearArgs& args, const WeightSpec& spec,
                  bfloat16* rows);

inline constexpr int kPanelBytes = kPanelRows * kPanelRowBytes;  // of the largest panel
// Writes the inputs into panels of `panel_rows` rows (quant_shapes.h).
void arrange_panels(Stream& stream, const QuantLinearArgs& args, int panel_rows, uint8_t* panels);

struct QuantScratch {
  uint8_t* panels = nullptr;  // all rows, padded to a multiple of kPanelRows
  float* sums = nullptr;
  int64_t sum_bytes = 0;
};
// Multiplies rows by panels of quant_panel_rows() on Hopper. If there are few items and the scratch
// has room for the sums of all slices, parts of K are multiplied at the same time.
void quant_many_rows(Stream& stream, const QuantLinearArgs& args, const QuantSpec& quant,
                     const QuantScratch& scratch);

}  // namespace quire::cuda
