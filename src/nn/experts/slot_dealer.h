// Which slot computes which token of an expert, where experts lie in slots and some in several
// (nn/experts/expert_placement.h): the slots of an expert take turns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Every rank deals the same tokens in the same order, so all of them come to the same slots.
class SlotDealer {
 public:
  SlotDealer(std::span<const int32_t> expert_of, int64_t num_experts);

  // Puts a slot of each expert in the place of its id.
  void deal(std::span<int32_t> expert_ids);

 private:
  bool is_identity_ = true;          // every expert lies in the slot of its number alone
  std::vector<int32_t> first_slot_;  // [X + 1] of each expert, in slots_
  std::vector<int32_t> slots_;       // by expert
  std::vector<int32_t> next_;        // [X] whose turn it is, in slots_
};

}  // namespace quire
