// The updates of all adapters that are loaded, as a GPU reads them: each adapter has a slot, and which
// row has which slot is known on the device alone.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "kernels/api/lora.h"
#include "weights/checkpoint.h"

namespace quire {

// LoraTable says where in a slot the parts of each matrix lie. It is immutable, and any thread may
// read it.
class LoraTable {
 public:
  struct Parts {
    int64_t first = 0;
    int32_t count = 0;  // 0: the matrix takes no updates
  };
  LoraTable() = default;
  // Of the matrices that can have updates.
  explicit LoraTable(std::span<const WeightSlot> slots);

  // Returns the number of parts of a slot, those that its adapter does not have included.
  int64_t slot_stride() const { return slot_stride_; }
  Parts parts_of(const MatrixWeight& matrix) const {
    const auto found = parts_.find(&matrix);
    return found == parts_.end() ? Parts{} : found->second;
  }
  const std::unordered_map<const MatrixWeight*, Parts>& parts() const { return parts_; }

 private:
  std::unordered_map<const MatrixWeight*, Parts> parts_;
  int64_t slot_stride_ = 0;
};

// What a batch has of them.
struct LoraSlots {
  const LoraTable* table = nullptr;  // null: no row of the batch has an adapter
  const LoraPart* parts = nullptr;   // on the device: [number of slots, table->slot_stride()]
  const int32_t* slots = nullptr;    // on the device: LoraSlotsParams::slots of the batch's tokens
  const int32_t* order = nullptr;    // on the device: LoraSlotsParams::order of all tokens
};

}  // namespace quire
