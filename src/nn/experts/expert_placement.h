// The placement of a layer's experts on ranks, where experts are spread over ranks (expert
// parallel).
//
// Each rank has some slots, and each slot holds one expert; the first rank's slots come first.
// Every expert has at least one slot. If there are more slots than experts, some experts are on
// several ranks, which share their tokens. A token's result does not depend on the slot that
// computes it (law L4), so placement only affects speed (docs/decisions/085-experts-by-load.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Returns the expert of each slot as long as loads are unknown: the experts in their order, and
// then again from the first one.
std::vector<int32_t> first_placement(int64_t num_experts, int64_t num_slots);

// The input of a placement.
struct ExpertLoad {
  std::span<const int64_t> tokens = {};          // of each expert
  std::span<const int64_t> slots_per_rank = {};  // in total at least the number of experts
};

// Returns the tokens of the most loaded rank, if the slots of an expert share its tokens equally.
double heaviest_rank(const ExpertLoad& load, std::span<const int32_t> expert_of);

// Returns whether experts should move, which takes reading them: from a placement whose most loaded
// rank has `heaviest` tokens to one where it has `next`. They stay where no tokens were counted.
bool is_worth_moving(double heaviest, double next);

// Returns the expert of each slot, such that the ranks have about equally many tokens. First,
// additional slots go one at a time to the expert with the most tokens per slot. Then the slots are
// assigned to ranks, those with the most tokens first, each to the rank with the fewest tokens that
// has room. Finally, each set of experts is given to the rank that already holds most of it in
// `current`, and an expert that stays on its rank stays in its slot. Equal arguments give equal
// placements.
std::vector<int32_t> place_experts(const ExpertLoad& load, std::span<const int32_t> current);

}  // namespace quire
