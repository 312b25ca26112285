// ForkWaiters holds the requests that wait for another one, their leader, to compute the prompt
// that they share with it. Beams wait for the leader of their search, which knows them: they are
// counted here, and released by it. One thread may use it.
#pragma once

#include <unordered_map>
#include <vector>

#include "sched/requests/entry.h"

namespace quire {

class ForkWaiters {
 public:
  // The entry's state becomes kForkWaiting.
  void add(Entry& entry);
  // Precondition: it waits here. Its state is the caller's to change.
  void remove(Entry& entry);
  // Returns the requests that wait for `leader`, and forgets them.
  std::vector<Entry*> release(RequestId leader);

  bool has_forks() const { return !by_leader_.empty(); }
  bool contains(RequestId leader) const { return by_leader_.contains(leader); }
  int32_t size() const { return size_; }

 private:
  std::unordered_map<RequestId, std::vector<Entry*>> by_leader_;  // looked up, never iterated
  int32_t size_ = 0;                                              // beams included
};

}  // namespace quire
