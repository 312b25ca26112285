// ForkWaiters holds the requests that wait until another request, their leader, has computed the
// prompt that they share. The beams of a search wait for its leader too. The leader itself has the
// list of them and releases them; here they are only counted. One thread may use it.
#pragma once

#include <unordered_map>
#include <vector>

#include "sched/requests/entry.h"

namespace quire {

class ForkWaiters {
 public:
  // Adds a request, whose state becomes kForkWaiting.
  void add(Entry& entry);
  // Removes a request. Precondition: it waits here. The caller changes its state.
  void remove(Entry& entry);
  // Removes and returns the requests that wait for `leader`.
  std::vector<Entry*> release(RequestId leader);

  bool has_forks() const { return !by_leader_.empty(); }
  bool contains(RequestId leader) const { return by_leader_.contains(leader); }
  int32_t size() const { return size_; }

 private:
  std::unordered_map<RequestId, std::vector<Entry*>> by_leader_;  // for lookups, never iterated
  int32_t size_ = 0;                                              // beams included
};

}  // namespace quire
