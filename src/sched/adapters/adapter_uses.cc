#include "sched/adapters/adapter_uses.h"

#include <algorithm>

#include "base/check.h"

namespace quire {

bool AdapterUses::has_room(const Adapter* adapter) const {
  if (adapter == nullptr || max_running_ == 0 || num_running_ < max_running_) return true;
  return std::any_of(uses_.begin(), uses_.end(), [&](const AdapterUse& use) {
    return use.adapter == adapter && use.num_running > 0;
  });
}

void AdapterUses::add_running(const Adapter* adapter, int32_t count) {
  if (adapter == nullptr) return;
  AdapterUse& use = find(adapter);
  const bool ran = use.num_running > 0;
  use.num_running += count;
  QUIRE_DCHECK(use.num_running >= 0, "adapter '{}': {} running", adapter->name, use.num_running);
  num_running_ += (use.num_running > 0 ? 1 : 0) - (ran ? 1 : 0);
  drop_unused();
}

void AdapterUses::add_waiting(const Adapter* adapter, int32_t count) {
  if (adapter == nullptr) return;
  AdapterUse& use = find(adapter);
  use.num_waiting += count;
  QUIRE_DCHECK(use.num_waiting >= 0, "adapter '{}': {} waiting", adapter->name, use.num_waiting);
  drop_unused();
}

AdapterUse& AdapterUses::find(const Adapter* adapter) {
  const auto it = std::find_if(uses_.begin(), uses_.end(),
                               [&](const AdapterUse& use) { return use.adapter == adapter; });
  return it != uses_.end() ? *it : uses_.emplace_back(AdapterUse{.adapter = adapter});
}

void AdapterUses::drop_unused() {
  std::erase_if(uses_,
                [](const AdapterUse& use) { return use.num_running + use.num_waiting == 0; });
}

}  // namespace quire
