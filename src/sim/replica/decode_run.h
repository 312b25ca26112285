// A DecodeRun is a run of steps in which every running request computes one token and nothing else
// can happen. Their times are worked out one by one, everything else is done for all of them at
// once.
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
  static constexpr int32_t kMinSteps = 2;  // that are worth a run

  // Borrows all of them.
  DecodeRun(const ReplicaSpec& spec, ReplicaSinks& sinks, KvManager& kv, Scheduler& scheduler,
            SlotTable& slots, ReplicaBooks& books)
      : spec_(spec), sinks_(sinks), kv_(kv), scheduler_(scheduler), slots_(slots), books_(books) {}

  // Plans a run from now on, of steps that begin before `stop_ns`. Returns false when an ordinary
  // step must be taken.
  bool plan(int64_t now_ns, int64_t stop_ns);
  // Returns the ends of the planned steps; without a run there are none.
  std::span<const int64_t> ends_ns() const { return ends_ns_; }
  // Something comes at that time: cuts off the steps behind the one that is under way then, but for
  // `num_planned` that are planned already.
  void cut_at(int64_t ns, int64_t num_planned);
  // All of it happens. Returns when its last step but one ended, or the run began.
  int64_t finish(int32_t num_waiting);

 private:
  class Tokens;  // what comes out

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
  int64_t host_ns_ = 0;  // of each step
  int64_t kv_tokens_ = 0;
};

}  // namespace quire::sim
