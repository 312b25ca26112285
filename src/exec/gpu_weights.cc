#include "exec/gpu_weights.h"

#include <cstddef>

namespace quire {
namespace {

int64_t table_bytes(const WeightSlot& slot) {
  return slot.rows() * slot.table_columns * size_bytes(slot.table->dtype);
}

// Memory of the host that was copied to `device`, piece by piece.
class Relocation {
 public:
  Relocation(Device& device, Arena& to, const std::byte* from, int64_t num_bytes)
      : device_(device), to_(to), from_(from), num_bytes_(num_bytes) {
    base_ = static_cast<std::byte*>(to.allocate_bytes(num_bytes));
    device.copy_to_device(base_, from, num_bytes);
  }
  // The device's copy of memory inside the one piece.
  void* moved(const void* host) const {
    const std::ptrdiff_t offset = static_cast<const std::byte*>(host) - from_;
    QUIRE_CHECK(offset >= 0 && offset < num_bytes_, "a weight outside of its arena");
    return base_ + offset;
  }
  bool holds(const void* host) const {
    const auto* at = static_cast<const std::byte*>(host);
    return at >= from_ && at < from_ + num_bytes_;
  }
  // The device's copy of memory anywhere.
  void* copied(const void* host, int64_t num_bytes) {
    void* memory = to_.allocate_bytes(num_bytes);
    device_.copy_to_device(memory, host, num_bytes);
    return memory;
  }

 private:
  Device& device_;
  Arena& to_;
  const std::byte* from_;
  int64_t num_bytes_;
  std::byte* base_;
};

}  // namespace

Status check_gpu_weights(const std::vector<WeightSlot>& slots) {
  for (const WeightSlot& slot : slots) {
    const bool packed_table = slot.table != nullptr && slot.table->packed.has_value();
    bool quantized_matrix = false;
    if (slot.matrix != nullptr) {
      for (const PackedWeight& part : slot.matrix->parts)
        quantized_matrix |= part.spec.quant.is_quantized() || part.spec.dtype != DType::kBF16;
    }
    if (packed_table || quantized_matrix) {
      return {StatusCode::kUnimplemented,
              "cuda: expected weights of float types, got a quantized checkpoint"};
    }
  }
  return {};
}

int64_t gpu_weight_bytes(const std::vector<WeightSlot>& slots, const LoadPlan& checkpoint,
                         int64_t arena_bytes) {
  int64_t bytes = Arena::padded(arena_bytes);
  if (checkpoint.borrowed_bytes() == 0) return bytes;
  for (const WeightSlot& slot : slots) {
    if (slot.table != nullptr) bytes += Arena::padded(table_bytes(slot));
  }
  return bytes;
}

Result<Arena> upload_weights(Device& device, const std::vector<WeightSlot>& slots, Arena& host,
                             int64_t device_bytes) {
  QUIRE_ASSIGN_OR_RETURN(Arena memory, device.allocate(device_bytes));
  const int64_t used = host.used_bytes();
  const auto* base = static_cast<const std::byte*>(host.allocate_bytes(0)) - used;
  Relocation relocation(device, memory, base, used);
  for (const WeightSlot& slot : slots) {
    if (slot.matrix != nullptr) {
      for (PackedWeight& part : slot.matrix->parts) part.data = relocation.moved(part.data);
    } else if (slot.vector != nullptr) {
      *slot.vector = static_cast<const float*>(relocation.moved(*slot.vector));
    } else if (relocation.holds(slot.table->data)) {
      slot.table->data = relocation.moved(slot.table->data);
    } else {
      slot.table->data = relocation.copied(slot.table->data, table_bytes(slot));
    }
  }
  QUIRE_RETURN_IF_ERROR(device.synchronize());
  return memory;
}

}  // namespace quire
