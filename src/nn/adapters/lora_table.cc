#include "nn/adapters/lora_table.h"

#include "nn/adapters/lora_reader.h"

namespace quire {

LoraTable::LoraTable(std::span<const WeightSlot> slots) {
  for (const WeightSlot& slot : slots) {
    if (!takes_updates(slot) || slot.expert >= 0) continue;
    const auto count = static_cast<int32_t>(slot.parts.size());
    if (parts_.emplace(slot.matrix, Parts{slot_stride_, count}).second) slot_stride_ += count;
  }
}

}  // namespace quire
