// A replica is one engine in virtual time. The scheduler and the KV manager are the engine's own;
// the executor is a StepTimer, and tokens are made up (sim/workload/token_content.h).
//
//   deliver(request, t)   at any time, in order of t
//   next()                says when something happens by itself, and what
//   process()             makes it happen
//
// It does what Engine::step() does: what arrived until a step's end joins the queue, then come
// schedule(), execute, update(). A step in which nothing but one token per running request can
// happen is not walked through: Scheduler::run_decodes() does many of them at once (fast-forward),
// to the same end (tested).
//
// With async_scheduling a step is planned when the one before it begins, so a request that comes
// while a step runs is in the next but one. One thread uses a replica.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "engine/engine_options.h"
#include "route/router.h"
#include "sched/scheduler.h"
#include "sim/fleet/kv_tier.h"
#include "sim/fleet/record.h"
#include "sim/fleet/step_timer.h"
#include "sim/workload/workload.h"

namespace quire::sim {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The replicas of a pool share this spec, from which each is built.
struct ReplicaSpec {
  EngineOptions engine;
  ExecutorInfo model;
  KvSpec kv_spec;
  int64_t kv_bytes = 0;  // for KV blocks
  std::shared_ptr<const StepTimer> timer;
  KvTierOptions tier;
  double kv_bytes_per_token = 0;  // over all devices, for tiers and transfers
  int32_t pipeline_depth = 1;     // steps in flight at once; 1 with async_scheduling
  bool fast_forward = true;
  // Of drafts behind right ones, the share that come out; there are drafts where
  // engine.scheduler.num_speculative_tokens is above 0.
  double draft_acceptance = 0;
};

// A Delivery is one leg of a request: all of it, or with P/D its prefill or its decode part.
struct Delivery {
  int32_t request = 0;        // index in the workload
  int32_t prompt_tokens = 0;  // known at the start of this leg
  int32_t output_tokens = 0;  // to generate in this leg
  int32_t num_generated = 0;  // in legs before
  int32_t kv_tokens = 0;      // whose KV comes along
  int64_t last_token_ns = 0;  // when num_generated > 0
  double prefill_us = 0;      // that the router expects of the prompt
};

// A step, for whoever wants to see each one (a trace); makes fast-forward stand aside.
struct StepView {
  int32_t replica = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  const StepPlan* plan = nullptr;
  const StepShape* shape = nullptr;
};

// A replica writes to these sinks and tells them. They outlive it.
struct ReplicaSinks {
  const Workload* workload = nullptr;
  std::vector<RequestRecord>* records = nullptr;
  ShardStats* stats = nullptr;
  // It is called when a leg has ended (the record says how the request stands).
  std::function<void(int32_t replica, const Delivery& leg, int64_t now_ns)> on_leg_done;
  std::function<void(const StepView&)> on_step;  // may be empty
};

enum class EventPhase : uint8_t { kFinish, kStart };  // at one time, finishes come first
struct ReplicaEvent {
  int64_t ns = kNever;
  EventPhase phase = EventPhase::kFinish;
};

class Replica {
 public:
  static Result<std::unique_ptr<Replica>> create(int32_t index, const ReplicaSpec& spec,
                                                 ReplicaSinks& sinks);
  // Returns the memory of this machine that a replica's KV blocks take. Errors: its KV memory is
  // too small.
  static Result<int64_t> book_bytes(const ReplicaSpec& spec);

  void deliver(const Delivery& leg, int64_t now_ns);
  ReplicaEvent next() const;
  // Makes the event happen that next() named. Nothing may have been delivered after its time.
  void process();
  // Says that no delivery comes before this time, which lets fast-forward plan no further than
  // useful.
  void set_horizon(int64_t ns) { horizon_ns_ = ns; }

  RouteLoad load() const { return load_; }
  // The same with what only a simulator knows: how far prompts are, and how long outputs will be.
  RouteLoad exact_load() const;
  int64_t num_kv_tokens() const;
  // Returns how many tokens of the prompt a cache would answer now.
  int32_t probe(std::span<const TokenId> prompt) const;
  ReplicaCounters counters() const;
  int32_t index() const { return index_; }
  const ReplicaSpec& spec() const { return spec_; }
  // Checks the scheduler and the KV manager, in O(everything).
  Status check_integrity() const { return scheduler_.check_integrity(); }

 private:
  class Tokens;  // DecodeTokens for fast-forward
  class Drafts;  // says what will come out, and errs as often as it is told to
  struct Slot {
    RequestId id{};
    Delivery leg;
    int32_t known_tokens = 0;
    int32_t num_open = 0;  // tokens that steps under way will have sampled
    bool scheduled = false;
    bool has_token = false;  // in this leg
    bool recovering = false;
    int64_t delivered_ns = 0;
    int64_t kv_blocked_mark = 0;
    int64_t scheduled_ns = 0;
    int64_t mark_ns = 0;    // start of the interval that is being accounted
    int64_t host_mark = 0;  // host_ns_ then
    int64_t preempted_ns = 0;
    int64_t preempted_host = 0;
    int64_t kv_ns = 0;  // lost to preemption in this interval
    int64_t last_token_ns = 0;
  };
  struct Pending {
    Delivery leg;
    int64_t delivered_ns = 0;
    int64_t ready_ns = 0;
    int64_t kv_blocked_mark = 0;
    int32_t kv_tokens = 0;  // to put into the cache when it joins
  };
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
  bool may_drain() const;
  int32_t spare_rounds() const;
  int32_t num_kv_blocks_in_use() const;
  void take_pending(int64_t now_ns);
  bool may_hold_back() const;
  bool is_sure_to_enter(const Delivery& leg) const;
  int32_t num_waiting() const;
  bool join(Pending& pending, int64_t now_ns);
  bool put_kv(std::span<const TokenId> tokens, int32_t num_tokens);
  bool plan_run(int64_t now_ns);
  void finish_run();
  void launch(const StepPlan& plan, int64_t now_ns);
  void note_plan(const StepPlan& plan, int64_t now_ns);
  void answer(const StepPlan& plan, StepResult& result);
  void account_step(int64_t begin_ns, int64_t duration_ns, int64_t kv_tokens);
  void finish_step();
  void take_token(Slot& slot, int64_t now_ns);
  void add_gap(int64_t ns);
  void flush_gaps();
  void end_leg(Slot& slot, int64_t now_ns);
  void refuse(const Pending& pending, Outcome outcome, int64_t now_ns);
  CauseTimes close_interval(Slot& slot, int64_t now_ns);
  void drop_from_running(const Slot& slot);
  void unload(const Delivery& leg);
  void drain_events();

  static constexpr uint64_t kSlotBits = 20;
  static constexpr int32_t kMinRun = 2;  // steps of decodes that are worth a run
  Slot* find(RequestId id);
  Slot& open_slot(const Pending& pending);
  TokenId output_token(const Slot& slot, int64_t position) const;
  std::shared_ptr<const SamplingParams> params(int32_t max_tokens);

  const int32_t index_;
  const ReplicaSpec& spec_;
  const bool overlapped_;  // true with async_scheduling
  ReplicaSinks& sinks_;
  KvManager kv_;
  std::unique_ptr<Drafter> drafts_;
  Scheduler scheduler_;
  std::optional<KvTier> tier_;

  std::deque<Pending> pending_;
  // They wait, and the scheduler does not know yet: it would hold their prompts, and nothing that it
  // does depends on them before those ahead of them are admitted.
  std::deque<Pending> held_back_;
  const bool may_hold_back_;
  std::vector<Slot> slots_;
  std::vector<int32_t> free_slots_;
  std::vector<int32_t> running_;  // slots that the scheduler has admitted
  uint64_t num_joined_ = 0;
  std::unordered_map<int32_t, std::shared_ptr<const SamplingParams>> params_;

  std::deque<InFlight> in_flight_;
  std::vector<StepResult> spare_results_;
  int64_t start_at_ns_ = kNever;
  int64_t stage_free_ns_ = 0;
  bool draining_ = false;        // overlapped: no step is planned behind the one under way
  int64_t visible_ns_ = kNever;  // what came later is not in the step that is planned next
  int64_t horizon_ns_ = kNever;
  // These are the ends of a planned run of decode steps. Empty: there is none.
  int64_t run_begin_ns_ = 0;
  std::vector<int64_t> run_ends_ns_;
  std::vector<int64_t> run_ends_us_;
  int64_t run_host_ns_ = 0;
  int64_t run_kv_tokens_ = 0;
  bool last_step_decoded_ = false;

  // The histogram has not got these gaps between tokens yet: most of a step are alike.
  int64_t gap_ns_ = 0;
  int64_t num_gaps_ = 0;

  StepShape shape_;
  int64_t last_head_waits_ = 0;
  RouteLoad load_;
  ReplicaCounters counters_;
  std::vector<KvEvent> events_;
};

}  // namespace quire::sim
