// What was delivered and has not joined the scheduler's queue yet: its KV is on the way, a step is
// under way, or the scheduler need not know of it yet.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>

#include "kv/kv_manager.h"
#include "route/router.h"
#include "sched/scheduler.h"
#include "sim/replica/delivery.h"
#include "sim/replica/replica_books.h"
#include "sim/replica/slot_table.h"

namespace quire::sim {

struct Arrival {
  Delivery leg;
  int64_t delivered_ns = 0;
  int64_t ready_ns = 0;
  // ReplicaCounters::kv_blocked_ns when it began to wait for blocks; -1: it has not yet, and does so
  // with the first step that may see it.
  int64_t kv_blocked_mark = -1;
  int32_t kv_tokens = 0;  // to put into the cache when it joins
};

class Arrivals {
 public:
  // Borrows all of them.
  Arrivals(const ReplicaSpec& spec, const Workload& workload, KvManager& kv, Scheduler& scheduler,
           SlotTable& slots, ReplicaBooks& books);

  void add(const Arrival& arrival) { pending_.push_back(arrival); }
  // What is ready by now joins, as far as that makes a difference.
  void take(int64_t now_ns);

  bool any_pending() const { return !pending_.empty(); }
  // When the first of those that are not ready is.
  int64_t first_ready_ns() const;
  // They wait, and the scheduler does not know.
  int32_t num_held_back() const { return static_cast<int32_t>(held_back_.size()); }
  void add_to(RouteLoad& load) const;

 private:
  bool may_hold_back(int64_t num_requests) const;
  bool is_sure_to_enter(const Delivery& leg) const;
  bool join(const Arrival& arrival, int64_t now_ns);
  bool put_kv(std::span<const TokenId> tokens, int32_t num_tokens);
  std::shared_ptr<const SamplingParams> params(int32_t max_tokens);
  std::shared_ptr<const Adapter> adapter(int32_t number);

  const ReplicaSpec& spec_;
  const Workload& workload_;
  KvManager& kv_;
  Scheduler& scheduler_;
  SlotTable& slots_;
  ReplicaBooks& books_;
  const bool may_hold_back_;
  std::deque<Arrival> pending_;
  // The scheduler would hold their prompts, and nothing that it does depends on them before those
  // ahead of them are admitted.
  std::deque<Arrival> held_back_;
  std::unordered_map<int32_t, std::shared_ptr<const SamplingParams>> params_;
  std::unordered_map<int32_t, std::shared_ptr<const Adapter>> adapters_;
};

}  // namespace quire::sim
