// Which rank has which experts of a layer, where experts are spread over ranks (expert parallel).
//
// Each rank has some slots, each slot one expert, and every expert at least one slot: the first rank's
// slots come first. Where there are more slots than experts, some experts lie on several ranks, which
// share their tokens. A token's result does not depend on the slot that computes it (law L4), so
// placement is a matter of speed alone (docs/decisions/085-experts-by-load.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Returns the expert of each slot while nothing is known of loads: they come in their order, and
// then from the first one on again.
std::vector<int32_t> first_placement(int64_t num_experts, int64_t num_slots);

// What decides a placement.
struct ExpertLoad {
  std::span<const int64_t> tokens = {};          // by expert: how many it had
  std::span<const int64_t> slots_per_rank = {};  // in all at least as many as experts
};

// Returns the tokens of the rank that has most, where an expert's slots have equal shares of its
// tokens.
double heaviest_rank(const ExpertLoad& load, std::span<const int32_t> expert_of);

// Returns the expert of each slot, so that ranks have about equally many tokens. A copy at a time goes to
// the expert with the most tokens a slot; then slots go by their tokens, the greatest first, to the rank
// with the fewest that has room. What lies on a rank in `current` stays in its slot if the rank keeps
// it, and ranks get those sets of experts of which they have most already. Equal arguments give
// equal placements.
std::vector<int32_t> place_experts(const ExpertLoad& load, std::span<const int32_t> current);

}  // namespace quire
