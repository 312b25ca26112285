// The updates of all loaded adapters, as a GPU reads them: each adapter has a slot, and only the
// device stores which row uses which slot.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "kernels/api/lora.h"
#include "weights/checkpoint.h"

namespace quire {

// LoraTable stores where the parts of each matrix lie in a slot. It is immutable, and any thread
// may read it.
class LoraTable {
 public:
  struct Parts {
    int64_t first = 0;
    int32_t count = 0;  // 0: the matrix cannot have updates
  };
  LoraTable() = default;
  // `slots` are those of the model; matrices that can have updates get a place.
  explicit LoraTable(std::span<const WeightSlot> slots);

  // Returns the number of parts of a slot, including those that its adapter lacks.
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

// The slots of a batch.
struct LoraSlots {
  const LoraTable* table = nullptr;  // null: no row of the batch has an adapter
  const LoraPart* parts = nullptr;   // on the device: [number of slots, table->slot_stride()]
  const int32_t* slots = nullptr;    // on the device: LoraSlotsParams::slots of the batch's tokens
  const int32_t* order = nullptr;    // on the device: LoraSlotsParams::order of all tokens
};

}  // namespace quire
