// How the pairs (token, choice) of a call are cut into work, as arithmetic on plain numbers.
//
// Pairs are sorted by expert, so that the rows of an expert are consecutive, and the rows of an
// expert are cut into tiles of at most `tile_rows`. Only the device knows which experts have rows;
// kernels are launched for the greatest possible number of tiles, and a block without a tile
// returns.
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

// Returns the greatest number of tiles that `num_pairs` rows of `num_experts` experts can make.
constexpr int64_t max_expert_tiles(int64_t num_pairs, int64_t num_experts, int64_t tile_rows) {
  return std::min(num_pairs, num_pairs / tile_rows + std::min(num_pairs, num_experts));
}

// Returns the rows of a tile, chosen so that the rows of most experts fit when pairs are spread
// evenly. Smaller tiles read weights more often, larger ones waste products. A row's bits do not
// depend on it.
constexpr int expert_tile_rows(int64_t num_pairs, int64_t num_experts) {
  const int64_t rows = num_pairs / num_experts;
  if (rows <= 2) return 8;
  if (rows <= 8) return 16;
  return rows <= 48 ? 64 : 128;
}

// Blocks of so many tiles are adjacent in the grid, so that those of the same expert read a weight
// from the cache.
inline constexpr int kNeighbourTiles = 8;

struct ExpertBlock {
  int tile = 0;
  int column = 0;  // number of a range of outputs
};

// Blocks take all columns of kNeighbourTiles tiles, then those of the next tiles.
QUIRE_HOST_DEVICE constexpr ExpertBlock expert_block(int index, int num_columns) {
  const int group = index / (kNeighbourTiles * num_columns);
  const int rest = index % (kNeighbourTiles * num_columns);
  return {group * kNeighbourTiles + rest % kNeighbourTiles, rest / kNeighbourTiles};
}
// The same for blocks that take one item after another, where the number of tiles is exact.
QUIRE_HOST_DEVICE constexpr ExpertBlock expert_item(int item, int num_tiles, int num_columns) {
  const int first = item / (kNeighbourTiles * num_columns) * kNeighbourTiles;
  const int rest = item % (kNeighbourTiles * num_columns);
  const int tiles = num_tiles - first < kNeighbourTiles ? num_tiles - first : kNeighbourTiles;
  return {first + rest % tiles, rest / tiles};
}
constexpr int64_t num_expert_blocks(int64_t max_tiles, int64_t num_columns) {
  return (max_tiles + kNeighbourTiles - 1) / kNeighbourTiles * kNeighbourTiles * num_columns;
}

// The offsets in bytes of the parts of run_experts()'s workspace. `inputs` and `results` alternate:
// in the first stage one has the panels of x and the other the experts' inside; then down reads
// from `inputs` and writes to `results`.
struct ExpertsWorkspace {
  int64_t num_tiles_at = 0;  // int32
  int64_t tiles_at = 0;      // ExpertTile [max tiles of any tile_rows]
  int64_t pairs_at = 0;      // int32 [pairs]: the pair of each row
  int64_t inputs_at = 0;     // bf16 [pairs, I], rows by expert, or panels
  int64_t results_at = 0;    // float [pairs, E] in the order of the pairs; bf16 as above; or panels
  int64_t num_bytes = 0;
};
// `panel_bytes` is the size of the larger panels, or 0 if there are none.
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
