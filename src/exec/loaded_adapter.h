// LoadedAdapter is an adapter that a runner has loaded. The runner counts those that are still in
// use.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "core/adapter.h"
#include "nn/adapters/lora_weights.h"

namespace quire {

// The number and size of all adapters that exist, shared by the runner and the adapters.
struct AdaptersInUse {
  std::atomic<int32_t> count = 0;
  std::atomic<int64_t> num_bytes = 0;
};

// Holds one of the planned slots and counts the bytes of its adapter. Both are freed with the slot,
// on any thread, also after the runner is gone.
class AdapterSlot {
 public:
  // Returns an empty slot if `most` slots are taken.
  static AdapterSlot take(std::shared_ptr<AdaptersInUse> in_use, int32_t most) {
    if (in_use->count.fetch_add(1) < most) return AdapterSlot(std::move(in_use));
    in_use->count.fetch_sub(1);
    return AdapterSlot(nullptr);
  }
  AdapterSlot(AdapterSlot&& other) noexcept
      : in_use_(std::move(other.in_use_)), num_bytes_(std::exchange(other.num_bytes_, 0)) {}
  AdapterSlot& operator=(AdapterSlot&&) = delete;
  ~AdapterSlot() {
    if (in_use_ == nullptr) return;
    in_use_->num_bytes.fetch_sub(num_bytes_);
    in_use_->count.fetch_sub(1);
  }
  bool is_empty() const { return in_use_ == nullptr; }

  // Called once. Returns false if all adapters together would take more than `most` bytes.
  bool take_bytes(int64_t num_bytes, int64_t most) {
    if (in_use_->num_bytes.fetch_add(num_bytes) + num_bytes > most) {
      in_use_->num_bytes.fetch_sub(num_bytes);
      return false;
    }
    num_bytes_ = num_bytes;
    return true;
  }

 private:
  explicit AdapterSlot(std::shared_ptr<AdaptersInUse> in_use) : in_use_(std::move(in_use)) {}
  std::shared_ptr<AdaptersInUse> in_use_;
  int64_t num_bytes_ = 0;
};

struct LoadedAdapter final : Adapter {
  LoadedAdapter(AdapterSlot slot_in, LoraWeights weights_in)
      : slot(std::move(slot_in)), weights(std::move(weights_in)) {}
  AdapterSlot slot;
  LoraWeights weights;
  int32_t device_slot = -1;                   // on a GPU
  std::shared_ptr<const void> device_memory;  // freed with the adapter
};

}  // namespace quire
