// These structures are what a replica is made of, the legs that it receives, and the sinks that it
// reports to.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "core/executor.h"
#include "engine/engine_options.h"
#include "sched/scheduler.h"
#include "sim/replica/adapter_times.h"
#include "sim/replica/drafting_work.h"
#include "sim/replica/kv_tier.h"
#include "sim/replica/record.h"
#include "sim/replica/step_timer.h"
#include "sim/workload/workload.h"

namespace quire::sim {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// A ReplicaSpec describes the replicas of a pool, which share it.
struct ReplicaSpec {
  EngineOptions engine;
  ExecutorInfo model;
  KvSpec kv_spec;
  int64_t kv_bytes = 0;  // memory for KV blocks
  std::shared_ptr<const StepTimer> timer;
  KvTierOptions tier;
  double kv_bytes_per_token = 0;  // over all devices, for tiers and transfers
  int32_t pipeline_depth = 1;     // steps in flight at once; 1 with async_scheduling
  bool fast_forward = true;
  // The probability that a draft is accepted if those before it are. There are drafts only if
  // engine.scheduler.num_speculative_tokens is above 0.
  double draft_acceptance = 0;
  DraftingTimes drafting;
  AdapterTimes adapters;  // for requests that ask for an adapter
};

// A Delivery is one leg of a request: the whole request, or with P/D its prefill or its decode
// part.
struct Delivery {
  int32_t request = 0;        // index in the workload
  int32_t prompt_tokens = 0;  // known at the start of this leg
  int32_t output_tokens = 0;  // to generate in this leg
  int32_t num_generated = 0;  // in earlier legs
  int32_t kv_tokens = 0;      // tokens whose KV is transferred with the leg
  int64_t last_token_ns = 0;  // time of the last token, if num_generated > 0
  double prefill_us = 0;      // prefill time that the router expects for the prompt
};

// A StepView describes one step, for an observer (a trace). Observing steps disables fast-forward.
struct StepView {
  int32_t replica = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  const StepPlan* plan = nullptr;
  const StepShape* shape = nullptr;
};

// A replica writes its results to these sinks, which must outlive it.
struct ReplicaSinks {
  const Workload* workload = nullptr;
  std::vector<RequestRecord>* records = nullptr;
  ShardStats* stats = nullptr;
  // Is called when a leg has ended; the record holds the request's state.
  std::function<void(int32_t replica, const Delivery& leg, int64_t now_ns)> on_leg_done;
  std::function<void(const StepView&)> on_step;  // may be empty
};

}  // namespace quire::sim
