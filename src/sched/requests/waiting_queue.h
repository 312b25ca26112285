// WaitingQueue: requests that could run, in the order of the policy. The order of two entries never
// changes while they wait (ageing is linear in time, so it cancels out). So the queue is an ordered
// set: inserting and erasing take O(log n). One thread may use it.
#pragma once

#include <cstdint>
#include <set>

#include "sched/requests/entry.h"
#include "sched/scheduler_config.h"

namespace quire {

class WaitingQueue {
 public:
  struct Item {
    bool resumes = false;  // under fcfs, preempted requests come first
    int64_t rank = 0;      // by the policy, smaller first
    int64_t arrival_us = 0;
    RequestId id;
    Entry* entry = nullptr;
    friend bool operator<(const Item& a, const Item& b) {
      if (a.resumes != b.resumes) return a.resumes;
      if (a.rank != b.rank) return a.rank < b.rank;
      if (a.arrival_us != b.arrival_us) return a.arrival_us < b.arrival_us;
      return a.id < b.id;
    }
  };
  using iterator = std::set<Item>::const_iterator;

  explicit WaitingQueue(const SchedulerConfig& config) : config_(config) {}

  void insert(Entry& entry);
  // Removes an entry. Precondition: it is in the queue and has not changed since it was inserted.
  void erase(Entry& entry);
  // Removes the entry at `it`, which may have changed.
  iterator erase(iterator it);

  iterator begin() const { return items_.begin(); }
  iterator end() const { return items_.end(); }
  // Returns the first of the short requests, or end() when there is none.
  iterator first_short() const;
  bool empty() const { return items_.empty(); }
  int32_t size() const { return static_cast<int32_t>(items_.size()); }

 private:
  Item make_item(Entry& entry) const;

  const SchedulerConfig& config_;
  std::set<Item> items_;
  std::set<Item> short_items_;  // those of items_ whose entry is short
};

}  // namespace quire
