// An adapter of a model that a ModelRunner runs, and the count of those that live.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "core/adapter.h"
#include "nn/adapters/lora_weights.h"

namespace quire {

// One of the slots that the memory plan has; given back when the adapter goes, on whatever thread
// that is, also after its runner.
class AdapterSlot {
 public:
  using Count = std::shared_ptr<std::atomic<int32_t>>;  // shared by the runner and its adapters

  // Empty when `most` are taken.
  static AdapterSlot take(Count count, int32_t most) {
    if (count->fetch_add(1) < most) return AdapterSlot(std::move(count));
    count->fetch_sub(1);
    return AdapterSlot(nullptr);
  }
  AdapterSlot(AdapterSlot&&) noexcept = default;
  AdapterSlot& operator=(AdapterSlot&&) = delete;
  ~AdapterSlot() {
    if (count_ != nullptr) count_->fetch_sub(1);
  }
  bool is_empty() const { return count_ == nullptr; }

 private:
  explicit AdapterSlot(Count count) : count_(std::move(count)) {}
  Count count_;
};

struct LoadedAdapter final : Adapter {
  LoadedAdapter(AdapterSlot slot_in, LoraWeights weights_in)
      : slot(std::move(slot_in)), weights(std::move(weights_in)) {}
  AdapterSlot slot;
  LoraWeights weights;
};

}  // namespace quire
