// SlotDealer chooses the slot that computes a token's expert (nn/experts/expert_placement.h): if an
// expert has several slots, they take turns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Every rank deals the same tokens in the same order, and so chooses the same slots.
class SlotDealer {
 public:
  SlotDealer(std::span<const int32_t> expert_of, int64_t num_experts);

  // Replaces each expert's id by one of its slots.
  void deal(std::span<int32_t> expert_ids);

 private:
  bool is_identity_ = true;          // expert i has slot i and no other
  std::vector<int32_t> first_slot_;  // [X + 1], index in slots_ by expert
  std::vector<int32_t> slots_;       // by expert
  std::vector<int32_t> next_;        // [X], index in slots_ of an expert's next slot
};

}  // namespace quire
