// How the pairs (token, choice) of a call are cut into work, on plain numbers.
//
// Pairs are sorted by expert, so that the rows of an expert are consecutive, and the rows of an
// expert are cut into tiles of at most `tile_rows`. Which experts have rows is known on the device
// alone; kernels are started for as many tiles as there can be, and a block without a tile returns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

struct ExpertTile {
  int32_t expert = 0;
  int32_t first_row = 0;
  int32_t num_rows = 0;
};

// The tiles that `num_pairs` rows of `num_experts` experts can make at most.
constexpr int64_t max_expert_tiles(int64_t num_pairs, int64_t num_experts, int64_t tile_rows) {
  return std::min(num_pairs, num_pairs / tile_rows + std::min(num_pairs, num_experts));
}

// The rows of a tile: those that most experts' rows fit, when pairs are spread evenly. Fewer waste
// reads of weights, more waste products. A row's bits are the same in each.
constexpr int expert_tile_rows(int64_t num_pairs, int64_t num_experts) {
  const int64_t rows = num_pairs / num_experts;
  if (rows <= 2) return 8;
  if (rows <= 8) return 16;
  return rows <= 48 ? 64 : 128;
}

// Tiles whose blocks are next to each other, so that those of one expert read a weight from the
// cache.
inline constexpr int kNeighbourTiles = 8;

struct ExpertBlock {
  int tile = 0;
  int column = 0;  // of blocks of outputs
};

// Blocks go through the columns of kNeighbourTiles tiles, then of the next ones.
QUIRE_HOST_DEVICE constexpr ExpertBlock expert_block(int index, int num_columns) {
  const int group = index / (kNeighbourTiles * num_columns);
  const int rest = index % (kNeighbourTiles * num_columns);
  return {group * kNeighbourTiles + rest % kNeighbourTiles, rest / kNeighbourTiles};
}
// The same of blocks that take one item after another: nothing is left out.
QUIRE_HOST_DEVICE constexpr ExpertBlock expert_item(int item, int num_tiles, int num_columns) {
  const int first = item / (kNeighbourTiles * num_columns) * kNeighbourTiles;
  const int rest = item % (kNeighbourTiles * num_columns);
  const int tiles = num_tiles - first < kNeighbourTiles ? num_tiles - first : kNeighbourTiles;
  return {first + rest % tiles, rest / tiles};
}
constexpr int64_t num_expert_blocks(int64_t max_tiles, int64_t num_columns) {
  return (max_tiles + kNeighbourTiles - 1) / kNeighbourTiles * kNeighbourTiles * num_columns;
}

// What the workspace of run_experts() is cut into, in bytes from its start. `inputs` and `results`
// are in use by turns: first the panels of x lie in one of them and the experts' inside in the
// other, then what down reads in `inputs` and what it writes in `results`.
struct ExpertsWorkspace {
  int64_t num_tiles_at = 0;  // int32
  int64_t tiles_at = 0;      // ExpertTile [max tiles of any tile_rows]
  int64_t pairs_at = 0;      // int32 [pairs]: which pair a row is
  int64_t inputs_at = 0;     // bf16 [pairs, I], rows by expert, or panels
  int64_t results_at = 0;    // float [pairs, E] in the order of the pairs; bf16 as above; or panels
  int64_t num_bytes = 0;
};
// `panel_bytes`: of the larger panels; 0: there are none.
constexpr ExpertsWorkspace experts_workspace(int64_t num_pairs, int64_t inside_size,
                                             int64_t hidden_size, int64_t panel_bytes) {
  constexpr int64_t kAlignment = 256;
  ExpertsWorkspace cut;
  int64_t at = kAlignment;
  const auto take = [&at](int64_t bytes) {
    const int64_t begin = at;
    at += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  };
  const int64_t inside_bytes = num_pairs * inside_size * 2;
  const int64_t output_bytes = num_pairs * hidden_size * 4;
  cut.tiles_at = take(num_pairs * int64_t{sizeof(ExpertTile)});
  cut.pairs_at = take(num_pairs * 4);
  cut.inputs_at = take(std::max(inside_bytes, panel_bytes));
  cut.results_at =
      take(panel_bytes == 0 ? output_bytes : std::max({output_bytes, inside_bytes, panel_bytes}));
  cut.num_bytes = at;
  return cut;
}

}  // namespace quire::cuda
