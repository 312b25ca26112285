// ReplicaBooks writes the records of a replica: requests and what their time was spent on,
// counters, load, sums over time.
#pragma once

#include <cstdint>

#include "core/step.h"
#include "route/router.h"
#include "sched/scheduler.h"
#include "sim/replica/delivery.h"
#include "sim/replica/slot_table.h"

namespace quire::sim {

class ReplicaBooks {
 public:
  // Borrows all arguments except the index.
  ReplicaBooks(int32_t index, ReplicaSinks& sinks, SlotTable& slots, const Scheduler& scheduler)
      : index_(index), sinks_(sinks), slots_(slots), scheduler_(scheduler) {}

  ReplicaCounters& counters() { return counters_; }
  const ReplicaCounters& counters() const { return counters_; }
  const RouteLoad& load() const { return load_; }

  // --- Requests ---
  void add_load(const Delivery& leg);
  void refuse(const Delivery& leg, Outcome outcome, int64_t now_ns);
  // Records which requests were preempted, run for the first time, or run again. `host_ns` is the
  // host time of all steps that begin before this one.
  void note_plan(const StepPlan& plan, int64_t host_ns, int64_t now_ns);
  void take_token(Slot& slot, int64_t now_ns);
  // Must be called after the last token of a step: adds the gaps between tokens to the histogram.
  void flush_gaps();
  // Records that the leg has returned its last token, and closes its slot.
  void end_leg(Slot& slot, int64_t now_ns);

  // --- Steps ---
  void account_step(int64_t begin_ns, int64_t duration_ns, int64_t kv_tokens, int32_t num_waiting);
  // Records what waiting requests waited for during similar steps that took `duration_ns` together:
  // blocks, if the head of the queue found none, otherwise a place in the batch.
  void account_wait(int64_t duration_ns, int32_t num_waiting);
  void note_peaks(const KvStats& kv, int32_t num_waiting);

 private:
  RequestRecord& record(const Slot& slot) {
    return (*sinks_.records)[static_cast<size_t>(slot.leg.request)];
  }
  void note_first_run(Slot& slot, int64_t host_ns, int64_t now_ns);
  CauseTimes close_interval(Slot& slot, int64_t now_ns);
  void add_gap(int64_t ns);
  void unload(const Delivery& leg);

  const int32_t index_;
  ReplicaSinks& sinks_;
  SlotTable& slots_;
  const Scheduler& scheduler_;
  RouteLoad load_;
  ReplicaCounters counters_;
  // Equal gaps between tokens that are not in the histogram yet; most gaps of a step are equal.
  int64_t gap_ns_ = 0;
  int64_t num_gaps_ = 0;
  int64_t last_head_waits_ = 0;
};

}  // namespace quire::sim
