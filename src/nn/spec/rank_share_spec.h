// Which rank of how many computes its part of a model (nn/rank_share.h).
#pragma once

#include <cstdint>

#include "weights/checkpoint.h"

namespace quire {

struct RankShare {
  int32_t rank = 0;
  int32_t num_ranks = 1;

  bool whole_experts = false;  // a rank has some experts whole instead of some columns of each

  bool is_whole() const { return num_ranks == 1; }
  bool spreads_experts() const { return whole_experts && !is_whole(); }
  // This rank's of `count` outputs, in runs of the same widths for whoever asks. May be empty.
  RowRange outputs(int64_t count) const;
  // This rank's of `count` experts, of those that are spread.
  RowRange experts(int64_t count) const;
};

}  // namespace quire
