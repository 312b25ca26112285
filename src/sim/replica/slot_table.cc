#include "sim/replica/slot_table.h"

#include <algorithm>

#include "base/check.h"
#include "sim/workload/token_content.h"

namespace quire::sim {

Slot* SlotTable::find(RequestId id) {
  const auto index = static_cast<size_t>(id.value & ((uint64_t{1} << kSlotBits) - 1));
  if (index >= slots_.size() || slots_[index].id != id) return nullptr;
  return &slots_[index];
}

Slot& SlotTable::open(const Delivery& leg, int64_t delivered_ns, int64_t kv_blocked_mark) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<int32_t>(slots_.size()));
    slots_.emplace_back();
    QUIRE_CHECK(slots_.size() <= (size_t{1} << kSlotBits), "a replica with {} requests at once",
                slots_.size());
  }
  const int32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = at(index);
  slot = {.id = RequestId(++num_joined_ << kSlotBits | static_cast<uint64_t>(index)),
          .leg = leg,
          .known_tokens = leg.prompt_tokens,
          .delivered_ns = delivered_ns,
          .kv_blocked_mark = kv_blocked_mark,
          .last_token_ns = leg.last_token_ns};
  return slot;
}

void SlotTable::close(Slot& slot) {
  free_slots_.push_back(index_of(slot));
  slot.id = {};
}

void SlotTable::end_running(const Slot& slot) {
  const auto it = std::find(running_.begin(), running_.end(), index_of(slot));
  QUIRE_CHECK(it != running_.end(), "request {} was not running", slot.id.value);
  *it = running_.back();
  running_.pop_back();
}

TokenId SlotTable::output_token(const Slot& slot, int64_t position) const {
  return content_token(request(slot.leg).content, position);
}

}  // namespace quire::sim
