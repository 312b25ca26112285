// sort_pairs() sorts the pairs (token, choice) by expert and cuts the rows of each into tiles.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/cuda/experts/expert_tiles.h"

namespace quire::cuda {

struct SortPairsArgs {
  const int32_t* expert_ids = nullptr;  // [pairs]
  int32_t num_pairs = 0;
  int32_t first_expert = 0;  // experts of other ranks are left out, and tiles count from this one
  int32_t num_experts = 0;
  int32_t tile_rows = 0;
  // Results.
  int32_t* num_tiles = nullptr;
  ExpertTile* tiles = nullptr;  // by expert
  int32_t* pairs = nullptr;     // [pairs] the pair of each row; in any order within an expert
};
void sort_pairs(Stream& stream, const SortPairsArgs& args);

}  // namespace quire::cuda
