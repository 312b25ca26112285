#include "sched/requests/fork_waiters.h"

#include <utility>

#include "base/check.h"

namespace quire {

void ForkWaiters::add(Entry& entry) {
  entry.state = EntryState::kForkWaiting;
  if (!entry.is_beam()) by_leader_[*entry.request.fork_of].push_back(&entry);
  ++size_;
}

void ForkWaiters::remove(Entry& entry) {
  --size_;
  if (entry.is_beam()) return;
  const auto it = by_leader_.find(*entry.request.fork_of);
  QUIRE_CHECK(it != by_leader_.end(), "S-3: request {} waits for nobody", entry.request.id.value);
  std::erase(it->second, &entry);
  if (it->second.empty()) by_leader_.erase(it);
}

std::vector<Entry*> ForkWaiters::release(RequestId leader) {
  const auto it = by_leader_.find(leader);
  if (it == by_leader_.end()) return {};
  std::vector<Entry*> released = std::move(it->second);
  by_leader_.erase(it);
  size_ -= static_cast<int32_t>(released.size());
  return released;
}

}  // namespace quire
