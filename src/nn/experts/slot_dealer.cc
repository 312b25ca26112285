#include "nn/experts/slot_dealer.h"

namespace quire {

SlotDealer::SlotDealer(std::span<const int32_t> expert_of, int64_t num_experts)
    : first_slot_(static_cast<size_t>(num_experts) + 1, 0), slots_(expert_of.size()) {
  for (const int32_t expert : expert_of) ++first_slot_[static_cast<size_t>(expert) + 1];
  for (size_t i = 1; i < first_slot_.size(); ++i) first_slot_[i] += first_slot_[i - 1];
  next_.assign(first_slot_.begin(), first_slot_.end() - 1);
  std::vector<int32_t> end = next_;
  for (size_t slot = 0; slot < expert_of.size(); ++slot) {
    const auto expert = static_cast<size_t>(expert_of[slot]);
    slots_[static_cast<size_t>(end[expert]++)] = static_cast<int32_t>(slot);
    is_identity_ &= expert == slot;
  }
}

void SlotDealer::deal(std::span<int32_t> expert_ids) {
  if (is_identity_) return;
  for (int32_t& id : expert_ids) {
    const auto expert = static_cast<size_t>(id);
    int32_t& next = next_[expert];
    id = slots_[static_cast<size_t>(next)];
    if (++next == first_slot_[expert + 1]) next = first_slot_[expert];
  }
}

}  // namespace quire
