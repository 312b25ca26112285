// A DecodeRun is a run of steps in which every running request computes one token and nothing else
// can happen. The times of the steps are computed one by one; everything else is done for all steps
// at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_manager.h"
#include "sched/scheduler.h"
#include "sim/replica/delivery.h"
#include "sim/replica/replica_books.h"
#include "sim/replica/slot_table.h"

namespace quire::sim {

class DecodeRun {
 public:
  static constexpr int32_t kMinSteps = 2;  // a run of fewer steps saves no time

  // Borrows all arguments.
  DecodeRun(const ReplicaSpec& spec, ReplicaSinks& sinks, KvManager& kv, Scheduler& scheduler,
            SlotTable& slots, ReplicaBooks& books)
      : spec_(spec), sinks_(sinks), kv_(kv), scheduler_(scheduler), slots_(slots), books_(books) {}

  // Plans a run from `now_ns` on, of steps that begin before `stop_ns`. Returns false if the next
  // step must be an ordinary one.
  bool plan(int64_t now_ns, int64_t stop_ns);
  // Returns the ends of the planned steps; empty without a run.
  std::span<const int64_t> ends_ns() const { return ends_ns_; }
  // Shortens the run because something arrives at `ns`: removes the steps behind the one that runs
  // at that time, except the next `num_planned`, which are planned already.
  void cut_at(int64_t ns, int64_t num_planned);
  // Applies all steps of the run. Returns the end of the last step but one, or the start of the
  // run.
  int64_t finish(int32_t num_waiting);

 private:
  class Tokens;  // makes the tokens that the steps return

  void plan_ends(int32_t num_steps, int64_t stop_ns, int64_t adapters_ns,
                 std::span<const int32_t> num_inside);

  const ReplicaSpec& spec_;
  ReplicaSinks& sinks_;
  KvManager& kv_;
  Scheduler& scheduler_;
  SlotTable& slots_;
  ReplicaBooks& books_;
  StepShape shape_;
  int64_t begin_ns_ = 0;
  std::vector<int64_t> ends_ns_;
  std::vector<int64_t> ends_us_;
  int64_t host_ns_ = 0;  // host time of each step
  int64_t kv_tokens_ = 0;
};

}  // namespace quire::sim
