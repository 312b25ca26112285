// RankShare says which of how many ranks computes its part of a model (nn/rank_share.h).
#pragma once

#include <cstdint>

#include "weights/checkpoint.h"

namespace quire {

// How the outputs of experts that are spread over ranks are combined.
enum class ExpertCombine : uint8_t {
  kFewerBytes,  // the one of the two that moves fewer bytes
  kAllGather,   // every rank gets the outputs of all experts, and sums all of them
  kAllToAll,    // every rank gets some columns of them and sums these; then the sums are gathered
};

struct RankShare {
  int32_t rank = 0;
  int32_t num_ranks = 1;

  bool whole_experts = false;  // a rank has some whole experts instead of some columns of each
  ExpertCombine combine = ExpertCombine::kFewerBytes;
  int32_t num_redundant_experts = 0;  // per layer: further copies of experts, on other ranks

  bool is_whole() const { return num_ranks == 1; }
  bool spreads_experts() const { return whole_experts && !is_whole(); }
  // Returns this rank's part of `count` outputs, which may be empty. It consists of whole runs,
  // whose width depends only on `count` and num_ranks.
  RowRange outputs(int64_t count) const;
  // Returns the number of slots of spread experts: the experts and the redundant copies.
  int64_t num_expert_slots(int64_t num_experts) const {
    return num_experts + (spreads_experts() ? num_redundant_experts : 0);
  }
  // Returns this rank's slots.
  RowRange expert_slots(int64_t num_experts) const;
  // Returns whether the outputs of spread experts are combined by an all-to-all when each token has
  // this many experts.
  bool combines_by_all_to_all(int64_t experts_per_token) const;
};

}  // namespace quire
