// RankShareSpec says which rank of how many computes its part of a model (nn/rank_share.h).
#pragma once

#include <cstdint>

#include "weights/checkpoint.h"

namespace quire {

// How the outputs of experts that are spread over the ranks come together.
enum class ExpertCombine : uint8_t {
  kFewerBytes,  // whichever of the two moves fewer bytes
  kAllGather,   // every rank gets the outputs of all experts, and sums all of them
  kAllToAll,    // every rank gets some columns of them, and sums these; then sums are gathered
};

struct RankShare {
  int32_t rank = 0;
  int32_t num_ranks = 1;

  bool whole_experts = false;  // a rank has some experts whole instead of some columns of each
  ExpertCombine combine = ExpertCombine::kFewerBytes;
  int32_t num_redundant_experts =
      0;  // of each layer: copies of experts that lie on other ranks too

  bool is_whole() const { return num_ranks == 1; }
  bool spreads_experts() const { return whole_experts && !is_whole(); }
  // This rank's of `count` outputs, in runs of the same widths for whoever asks. May be empty.
  RowRange outputs(int64_t count) const;
  // Returns the number of slots in which experts that are spread lie: as many as there are experts
  // and copies.
  int64_t num_expert_slots(int64_t num_experts) const {
    return num_experts + (spreads_experts() ? num_redundant_experts : 0);
  }
  // Returns this rank's slots.
  RowRange expert_slots(int64_t num_experts) const;
  // Whether outputs of experts that are spread are combined by an all-to-all, where each token has so
  // many experts.
  bool combines_by_all_to_all(int64_t experts_per_token) const;
};

}  // namespace quire
