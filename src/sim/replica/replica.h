// A Replica is one engine in virtual time. The scheduler and the KV manager are the engine's own;
// the executor is a StepTimer, and token ids are generated (sim/workload/token_content.h).
//
//   deliver(request, t)   at any time, in order of t
//   next()                returns when the next event happens, and which
//   process()             performs that event
//
// It does what Engine::step() does: requests that arrived before the end of a step join the queue,
// then it calls schedule(), executes the step and calls update(). Steps that can only compute one
// token per running request are not simulated one by one: Scheduler::run_decodes() does many of
// them at once (fast-forward), with the same result (tested).
//
// With async_scheduling a step is planned when the step before it begins, so a request that arrives
// during a step joins the step after the next one. One thread uses a replica.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/kv_manager.h"
#include "route/router.h"
#include "sched/scheduler.h"
#include "sim/replica/arrivals.h"
#include "sim/replica/decode_run.h"
#include "sim/replica/delivery.h"
#include "sim/replica/replica_books.h"
#include "sim/replica/sim_drafts.h"
#include "sim/replica/slot_table.h"

namespace quire::sim {

enum class EventPhase : uint8_t { kFinish, kStart };  // at one time, finishes precede starts
struct ReplicaEvent {
  int64_t ns = kNever;
  EventPhase phase = EventPhase::kFinish;
};

class Replica {
 public:
  static Result<std::unique_ptr<Replica>> create(int32_t index, const ReplicaSpec& spec,
                                                 ReplicaSinks& sinks);
  // Returns the memory of this machine that a replica's KV blocks take, or an error if its KV
  // memory is too small.
  static Result<int64_t> book_bytes(const ReplicaSpec& spec);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  void deliver(const Delivery& leg, int64_t now_ns);
  ReplicaEvent next() const;
  // Performs the event that next() returned. No leg may have been delivered after that event's
  // time.
  void process();
  // Promises that no leg is delivered before this time. Fast-forward plans no further than this.
  void set_horizon(int64_t ns) { horizon_ns_ = ns; }

  RouteLoad load() const { return books_.load(); }
  // Returns the load with facts that only a simulator has: how much of each prompt is computed, and
  // the lengths of outputs.
  RouteLoad exact_load() const;
  int64_t num_kv_tokens() const;
  // Returns how many tokens of the prompt the prefix cache holds.
  int32_t probe(std::span<const TokenId> prompt) const;
  ReplicaCounters counters() const;
  int32_t index() const { return index_; }
  const ReplicaSpec& spec() const { return spec_; }
  // Checks the scheduler and the KV manager; takes time linear in their size.
  Status check_integrity() const { return scheduler_.check_integrity(); }

 private:
  struct InFlight {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int64_t host_ns = 0;
    StepResult result;
  };

  Replica(int32_t index, const ReplicaSpec& spec, ReplicaSinks& sinks, const EngineOptions& engine,
          int32_t num_blocks);

  void start(int64_t now_ns);
  bool has_room() const;
  int64_t host_of_steps() const;
  int32_t num_waiting() const { return scheduler_.num_waiting() + arrivals_.num_held_back(); }
  // Returns whether a run of steps may begin: may_run() now, may_drain() after the running step.
  bool may_run() const;
  bool may_drain() const;
  void launch(const StepPlan& plan, int64_t now_ns);
  void answer(const StepPlan& plan, StepResult& result);
  void finish_step();

  const int32_t index_;
  const ReplicaSpec& spec_;
  const bool overlapped_;  // true with async_scheduling
  ReplicaSinks& sinks_;
  KvManager kv_;
  SlotTable slots_;
  SimDrafts drafts_;
  Scheduler scheduler_;
  ReplicaBooks books_;
  Arrivals arrivals_;
  DecodeRun run_;
  std::optional<KvTier> tier_;

  std::deque<InFlight> in_flight_;
  std::vector<StepResult> spare_results_;
  int64_t start_at_ns_ = kNever;
  int64_t stage_free_ns_ = 0;
  bool draining_ = false;        // with overlapped_: no step is planned behind the running one
  int64_t visible_ns_ = kNever;  // legs that arrived later are not in the next step to be planned
  int64_t horizon_ns_ = kNever;
  bool last_step_decoded_ = false;
  StepShape shape_;
  AdapterCount step_adapters_;
  DraftingWork drafting_;
  std::vector<KvEvent> events_;
};

}  // namespace quire::sim
