// Arrivals holds the legs that were delivered but have not joined the scheduler's queue: their KV
// is being transferred, a step is running, or the scheduler does not need to know them yet.
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
  // The value of ReplicaCounters::kv_blocked_ns when the leg began to wait for blocks. -1 if it has
  // not begun: it does with the first step that may see it.
  int64_t kv_blocked_mark = -1;
  int32_t kv_tokens = 0;  // tokens that are put into the cache when the leg joins
};

class Arrivals {
 public:
  // Borrows all arguments.
  Arrivals(const ReplicaSpec& spec, const Workload& workload, KvManager& kv, Scheduler& scheduler,
           SlotTable& slots, ReplicaBooks& books);

  void add(const Arrival& arrival) { pending_.push_back(arrival); }
  // Adds the legs that are ready at `now_ns` to the scheduler's queue, except those that may be
  // held back.
  void take(int64_t now_ns);

  bool any_pending() const { return !pending_.empty(); }
  // Returns when the first of the pending legs becomes ready.
  int64_t first_ready_ns() const;
  // Returns the number of ready legs that wait without the scheduler's knowledge.
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
  // Ready legs that the scheduler does not have yet. It would have to store their prompts, and
  // nothing that it does depends on them until the legs before them are admitted.
  std::deque<Arrival> held_back_;
  std::unordered_map<int32_t, std::shared_ptr<const SamplingParams>> params_;
  std::unordered_map<int32_t, std::shared_ptr<const Adapter>> adapters_;
};

}  // namespace quire::sim
