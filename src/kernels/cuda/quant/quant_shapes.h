// How products with quantized weights are cut on Hopper, as arithmetic on plain numbers. Shapes
// differ in speed only: a row has the same bits in all of them.
#pragma once

#include <cstdint>

namespace quire::cuda {

constexpr int64_t padded_to(int64_t multiple, int64_t count) {
  return (count + multiple - 1) / multiple * multiple;
}

// Panels are the form in which quant_many_rows() reads its inputs: some rows x 64 inputs, swizzled,
// with the inputs in the order of the weight's codes; row block after row block, and in it chunk
// after chunk.
inline constexpr int kPanelRows = 128;  // of the largest panel

// Up to most_rows rows use panels of panel_rows rows; 0: they use quant_linear.cu's own kernel,
// without panels. More rows than in all choices use the largest panels.
struct PanelChoice {
  int64_t most_rows = 0;
  int panel_rows = 0;
};
inline constexpr PanelChoice kPanelChoices[] = {{16, 0}, {32, 32}, {64, 64}};

constexpr int quant_panel_rows(int64_t num_rows) {
  for (const PanelChoice& choice : kPanelChoices)
    if (num_rows <= choice.most_rows) return choice.panel_rows;
  return kPanelRows;
}

// Returns how many warpgroups of a block multiply: as many as have registers for their sums.
constexpr int panel_warpgroups(int panel_rows) { return panel_rows > 64 ? 2 : 4; }
// Returns how many tiles of 16 outputs these have together.
constexpr int panel_tiles(int panel_rows) { return panel_warpgroups(panel_rows) * 4; }
inline constexpr int kMostPanelTiles = panel_tiles(32);

// K is cut into slices, which are summed separately and then added in order.
inline constexpr int kQuantSlices = 8;

// The numbers that decide into how many parts K is cut.
struct QuantCut {
  int64_t num_items = 0;  // each takes a block
  int64_t num_chunks = 0;
  int64_t slice_bytes = 0;  // of the sums of one slice
  int64_t most_bytes = 0;   // of the memory for the sums of all slices
};

// Returns the cost of the product in `parts` parts, in eighths of the time that a block takes for a
// chunk. The first part adds its slices itself; the sums of the others are written, and then read
// by another kernel.
constexpr int64_t quant_cost(const QuantCut& cut, int32_t parts, int32_t num_sms) {
  constexpr int64_t kFoldChunks = 5;
  constexpr int64_t kFoldBytesPerChunk = 768 << 10;
  const int64_t at_once = num_sms / parts;
  const int64_t rounds = (cut.num_items + at_once - 1) / at_once;
  const int64_t multiplying = rounds * cut.num_chunks * kQuantSlices / parts;
  if (parts == 1) return multiplying;
  const int64_t bytes = (kQuantSlices - kQuantSlices / parts + 1) * cut.slice_bytes;
  return multiplying + (kFoldChunks + bytes / kFoldBytesPerChunk) * kQuantSlices;
}

// Returns the best number of parts of K: 1, 2, 4 or 8, each with the same number of slices.
constexpr int32_t quant_parts(const QuantCut& cut, int32_t num_sms) {
  int32_t best = 1;
  if (kQuantSlices * cut.slice_bytes > cut.most_bytes) return best;
  for (int32_t parts = 2; parts <= kQuantSlices && parts <= num_sms; parts *= 2)
    if (quant_cost(cut, parts, num_sms) < quant_cost(cut, best, num_sms)) best = parts;
  return best;
}

}  // namespace quire::cuda
