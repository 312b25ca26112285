// An EventHeap holds the next event of each replica, with the earliest on top. It is an indexed
// binary heap: moving an event costs O(log n).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/replica/replica.h"

namespace quire::sim {

class EventHeap {
 public:
  // Returns the index of the replica whose event comes first, or -1 if the heap is empty. Among
  // events at one time, finishes come before starts, then lower indices first.
  int32_t top() const { return heap_.empty() ? -1 : heap_[0]; }
  ReplicaEvent event(int32_t replica) const { return events_[static_cast<size_t>(replica)]; }
  void add(int32_t replica, ReplicaEvent event) {
    if (static_cast<size_t>(replica) >= events_.size()) {
      events_.resize(static_cast<size_t>(replica) + 1);
      place_.resize(static_cast<size_t>(replica) + 1);
    }
    place_[static_cast<size_t>(replica)] = heap_.size();
    heap_.push_back(replica);
    update(replica, event);
  }
  void update(int32_t replica, ReplicaEvent event) {
    events_[static_cast<size_t>(replica)] = event;
    sift_down(sift_up(place_[static_cast<size_t>(replica)]));
  }

 private:
  bool before(int32_t a, int32_t b) const {
    const ReplicaEvent& x = events_[static_cast<size_t>(a)];
    const ReplicaEvent& y = events_[static_cast<size_t>(b)];
    if (x.ns != y.ns) return x.ns < y.ns;
    if (x.phase != y.phase) return x.phase < y.phase;
    return a < b;
  }
  void swap(size_t i, size_t j) {
    std::swap(heap_[i], heap_[j]);
    place_[static_cast<size_t>(heap_[i])] = i;
    place_[static_cast<size_t>(heap_[j])] = j;
  }
  size_t sift_up(size_t i) {
    while (i > 0 && before(heap_[i], heap_[(i - 1) / 2])) {
      swap(i, (i - 1) / 2);
      i = (i - 1) / 2;
    }
    return i;
  }
  void sift_down(size_t i) {
    while (true) {
      size_t first = i;
      for (size_t child = 2 * i + 1; child < heap_.size() && child <= 2 * i + 2; ++child) {
        if (before(heap_[child], heap_[first])) first = child;
      }
      if (first == i) return;
      swap(i, first);
      i = first;
    }
  }

  std::vector<int32_t> heap_;
  std::vector<size_t> place_;         // by replica
  std::vector<ReplicaEvent> events_;  // by replica
};

}  // namespace quire::sim
