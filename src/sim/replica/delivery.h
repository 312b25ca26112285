// What a replica is made of, what comes to it, and whom it tells.
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
  DraftingTimes drafting;
  AdapterTimes adapters;  // of requests that ask for one
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

}  // namespace quire::sim
