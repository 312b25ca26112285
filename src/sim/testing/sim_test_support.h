// These helpers make small fleets and random workloads for tests.
#pragma once

#include <memory>
#include <random>

#include "sim/fleet/fleet.h"
#include "sim/workload/token_content.h"

namespace quire::sim::test {

inline int32_t pick(std::mt19937_64& rng, int32_t low, int32_t high) {
  return low + static_cast<int32_t>(rng() % static_cast<uint64_t>(high - low + 1));
}

// A small replica has a few hundred small blocks, and steps of about a millisecond.
inline ReplicaSpec small_replica() {
  ReplicaSpec spec;
  spec.engine.num_blocks = 200;
  spec.engine.scheduler.max_model_len = 400;
  spec.engine.scheduler.max_num_seqs = 8;
  spec.engine.scheduler.max_num_batched_tokens = 64;
  spec.model = {.vocab_size = kVocabSize, .max_model_len = 400};
  spec.kv_spec = {.block_size = 4, .groups = {KvGroupSpec{}}, .block_bytes = 4096};
  spec.kv_bytes = 200 * 4096;
  spec.kv_bytes_per_token = 1024;
  auto timer = std::make_shared<AffineTimer>();
  timer->step_ns = 1e6;
  timer->token_ns = 2e4;
  timer->context_ns = 37;
  timer->host_step_ns = 2e5;
  spec.timer = timer;
  return spec;
}

inline FleetSpec small_fleet(int32_t num_replicas = 1, Routing routing = Routing::kRoundRobin) {
  FleetSpec spec;
  spec.pools.push_back({.name = "pool", .replica = small_replica(), .num_replicas = num_replicas});
  spec.router.routing = routing;
  spec.slice_ns = 10'000'000;
  return spec;
}

// Gaps between arrivals are exponential, and some prompts share their beginning.
inline Workload random_workload(uint64_t seed, int32_t num_requests, double mean_gap_ns) {
  std::mt19937_64 rng(seed);
  Workload workload;
  double at_ns = 0;
  for (int32_t i = 0; i < num_requests; ++i) {
    at_ns += mean_gap_ns * 2.0 * static_cast<double>(rng() % 1000) / 1000.0;
    SimRequest request;
    request.arrival_ns = static_cast<int64_t>(at_ns);
    request.input_tokens = pick(rng, 1, 90);
    request.output_tokens = pick(rng, 1, 60);
    request.content = stream_id(1, static_cast<uint64_t>(i));
    if (rng() % 2 == 0) {
      request.prefix = stream_id(2, rng() % 3);
      request.prefix_tokens = pick(rng, 0, 60);
    }
    request.session = static_cast<int32_t>(rng() % 10);
    request.priority = pick(rng, 0, 2);
    workload.requests.push_back(request);
  }
  return workload;
}

}  // namespace quire::sim::test
