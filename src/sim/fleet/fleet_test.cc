// These tests run whole fleets and check what must hold for any workload on any fleet.
#include "sim/fleet/fleet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/fleet/deployment.h"
#include "sim/testing/sim_test_support.h"

namespace quire::sim {
namespace {

using test::random_workload;
using test::small_fleet;

RunResult must_run(const Workload& workload, const FleetSpec& spec) {
  const Status valid = workload.validate();
  EXPECT_TRUE(valid.ok()) << valid.message();
  auto result = run(workload, spec);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

int64_t sum(const CauseTimes& parts) {
  int64_t total = 0;
  for (const int64_t part : parts) total += part;
  return total;
}

// Checks conservation and causality of one run.
void check_run(const Workload& workload, const RunResult& result) {
  int64_t num_outputs = 0, num_finished = 0;
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    const SimRequest& request = workload.requests[i];
    const RequestRecord& record = result.records[i];
    SCOPED_TRACE(fmt::format("request {}", i));
    ASSERT_EQ(record.outcome, Outcome::kCompleted);
    ASSERT_EQ(record.input_tokens, request.input_tokens);
    ASSERT_EQ(record.output_tokens, request.output_tokens);
    ASSERT_LT(record.cached_tokens, request.input_tokens);
    ASSERT_GE(record.first_scheduled_ns, record.arrival_ns);
    ASSERT_GT(record.first_token_ns, record.first_scheduled_ns);
    ASSERT_GE(record.last_token_ns, record.first_token_ns);
    ASSERT_LE(record.last_token_ns, result.end_ns);
    if (request.previous >= 0) {
      const RequestRecord& previous = result.records[static_cast<size_t>(request.previous)];
      ASSERT_EQ(record.arrival_ns, previous.last_token_ns + request.arrival_ns);
    }
    // Every nanosecond has one cause, and none is negative.
    for (const CauseTimes* parts : {&record.ttft_parts, &record.decode_parts}) {
      for (const int64_t part : *parts) ASSERT_GE(part, 0);
    }
    ASSERT_EQ(sum(record.ttft_parts), record.ttft_ns());
    ASSERT_EQ(sum(record.decode_parts), record.last_token_ns - record.first_token_ns);
    num_outputs += record.output_tokens;
    ++num_finished;
  }
  ReplicaCounters all;
  for (const ReplicaRun& replica : result.replicas) all.add(replica.counters);
  EXPECT_EQ(all.num_output_tokens, num_outputs);
  EXPECT_EQ(result.stats.itl.count(), num_outputs - num_finished);
  TimeSlice slices;
  for (const TimeSlice& slice : result.stats.timeline.slices()) {
    slices.num_arrivals += slice.num_arrivals;
    slices.num_finished += slice.num_finished;
    slices.output_tokens += slice.output_tokens;
    slices.busy_ns += slice.busy_ns;
  }
  EXPECT_EQ(slices.num_arrivals, num_finished);
  EXPECT_EQ(slices.num_finished, num_finished);
  EXPECT_EQ(slices.output_tokens, num_outputs);
  EXPECT_EQ(slices.busy_ns, all.busy_ns);
}

void expect_equal(const RunResult& a, const RunResult& b) {
  ASSERT_EQ(a.records.size(), b.records.size());
  for (size_t i = 0; i < a.records.size(); ++i) {
    ASSERT_EQ(a.records[i], b.records[i]) << "request " << i;
  }
  EXPECT_EQ(a.end_ns, b.end_ns);
  EXPECT_EQ(a.stats.timeline.slices(), b.stats.timeline.slices());
  EXPECT_EQ(a.stats.itl.count(), b.stats.itl.count());
  EXPECT_EQ(a.stats.itl.mean_ns(), b.stats.itl.mean_ns());
  EXPECT_EQ(a.stats.itl.deviation_ns(), b.stats.itl.deviation_ns());
  EXPECT_EQ(a.stats.itl.quantile_ns(0.99), b.stats.itl.quantile_ns(0.99));
  ASSERT_EQ(a.replicas.size(), b.replicas.size());
  for (size_t i = 0; i < a.replicas.size(); ++i) {
    const ReplicaCounters& x = a.replicas[i].counters;
    const ReplicaCounters& y = b.replicas[i].counters;
    EXPECT_EQ(x.num_steps, y.num_steps);
    EXPECT_EQ(x.num_tokens, y.num_tokens);
    EXPECT_EQ(x.num_preemptions, y.num_preemptions);
    EXPECT_EQ(x.prefix_hits, y.prefix_hits);
    EXPECT_EQ(x.busy_ns, y.busy_ns);
    EXPECT_EQ(x.host_ns, y.host_ns);
    EXPECT_EQ(x.kv_blocked_ns, y.kv_blocked_ns);
    EXPECT_EQ(x.seq_blocked_ns, y.seq_blocked_ns);
    EXPECT_EQ(x.peak_kv_blocks, y.peak_kv_blocks);
    EXPECT_EQ(x.peak_waiting, y.peak_waiting);
    EXPECT_EQ(x.peak_running, y.peak_running);
    EXPECT_EQ(a.replicas[i].paid_ns, b.replicas[i].paid_ns);
  }
}

Workload random_sessions(uint64_t seed, int32_t num_requests) {
  Workload workload = random_workload(seed, num_requests, 3e6);
  std::mt19937_64 rng(seed);
  for (int32_t i = 1; i < num_requests; ++i) {
    SimRequest& r = workload.requests[static_cast<size_t>(i)];
    const int32_t before = test::pick(rng, 0, i - 1);
    SimRequest& previous = workload.requests[static_cast<size_t>(before)];
    const int32_t history = previous.input_tokens + previous.output_tokens;
    if (rng() % 2 == 0 || history > 200 || previous.session < 0) continue;
    r.previous = before;
    r.arrival_ns = test::pick(rng, 0, 20'000'000);
    r.content = previous.content;
    r.prefix = previous.prefix;
    r.prefix_tokens = previous.prefix_tokens;
    r.input_tokens = history + test::pick(rng, 1, 40);
    r.session = previous.session;
    previous.session = -1;  // a turn has only one next turn
  }
  return workload;
}

TEST(Fleet, ConservesRequestsTokensAndTimeUnderRandomLoads) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    FleetSpec spec =
        small_fleet(1 + static_cast<int32_t>(seed % 3), static_cast<Routing>(seed % 9));
    spec.admission_ns = seed % 2 == 0 ? 300'000 : 0;
    if (seed % 4 == 0) spec.router.stale_ns = 5'000'000;
    if (seed % 3 == 0) spec.pools[0].replica.engine.num_blocks = 110;
    const Workload workload = random_workload(seed, 300, 2e6);
    check_run(workload, must_run(workload, spec));
    const Workload sessions = random_sessions(seed, 200);
    check_run(sessions, must_run(sessions, spec));
    Workload closed = random_workload(seed, 200, 0);
    closed.closed_loop = ClosedLoop{.concurrency = 10, .think_ns = 1'000'000};
    check_run(closed, must_run(closed, spec));
  }
}

TEST(Fleet, FastForwardChangesNothing) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    FleetSpec spec = small_fleet(1 + static_cast<int32_t>(seed % 3),
                                 seed % 2 == 0 ? Routing::kRoundRobin : Routing::kLeastRequests);
    if (seed % 3 == 0) spec.pools[0].replica.engine.num_blocks = 110;
    if (seed % 4 == 0) {
      spec.pools[0].replica.engine.num_blocks = 230;
      spec.pools[0].replica.kv_spec.groups.push_back(
          {.kind = KvKind::kSlidingWindow, .sliding_window = 24, .layers = {}});
    }
    spec.pools[0].replica.engine.scheduler.async_scheduling = seed > 12;
    const Workload workload = random_workload(seed, 200, seed % 2 == 0 ? 2e7 : 3e6);
    if (seed % 5 < 2) {
      spec.pools[0].replica.engine.scheduler.step_time = {
          .predicted = {.step_us = 700, .decode_us = 20, .context_us = 0.1, .prompt_token_us = 30},
          .max_step_us = 1500};
    }
    const RunResult fast = must_run(workload, spec);
    spec.pools[0].replica.fast_forward = false;
    expect_equal(fast, must_run(workload, spec));
    if (HasFatalFailure()) return;
  }
}

// Most steps are then decodes that leave no blocks to the head of the queue, beside requests that
// were preempted so often that they keep the blocks that they may need.
TEST(Fleet, FastForwardChangesNothingWhereBlocksAreShort) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    FleetSpec spec = small_fleet();
    ReplicaSpec& replica = spec.pools[0].replica;
    replica.engine.num_blocks = 102 + 8 * static_cast<int32_t>(seed % 4);
    replica.engine.scheduler.max_preemptions = static_cast<int32_t>(seed % 3) + 1;
    replica.engine.scheduler.max_skip_ahead = seed % 2 == 0 ? 16 : 1;
    replica.engine.scheduler.async_scheduling = seed > 4;
    const Workload workload = random_workload(seed, 150, 2e6);
    const RunResult fast = must_run(workload, spec);
    EXPECT_GT(fast.replicas[0].counters.kv_blocked_ns, 0);
    replica.fast_forward = false;
    expect_equal(fast, must_run(workload, spec));
    if (HasFatalFailure()) return;
  }
}

// This is the purpose of the rule: long prompts no longer delay the decodes of the same step.
TEST(Fleet, StepsBoundedByTimeKeepGapsShort) {
  const Workload workload = random_workload(5, 80, 5e6);
  const auto longest_gap_us = [&](int64_t max_step_us) {
    FleetSpec spec = small_fleet();
    spec.pools[0].replica.engine.scheduler.step_time = {
        .predicted = {.step_us = 1000, .decode_us = 20, .context_us = 0.04, .prompt_token_us = 20},
        .max_step_us = max_step_us};
    return must_run(workload, spec).stats.itl.quantile_ns(0.999) / 1000;
  };
  EXPECT_GT(longest_gap_us(0), 2000);
  EXPECT_LT(longest_gap_us(1500), 1600);
}

TEST(Fleet, ThreadsAndOneHeapChangeNothing) {
  for (const Routing routing : {Routing::kRoundRobin, Routing::kRandom, Routing::kSession}) {
    FleetSpec spec = small_fleet(5, routing);
    const Workload workload = random_workload(7, 500, 1e6);
    const RunResult apart = must_run(workload, spec);
    spec.num_threads = 3;
    expect_equal(apart, must_run(workload, spec));
    spec.one_heap = true;
    expect_equal(apart, must_run(workload, spec));
  }
}

TEST(Fleet, MoreThreadsThanReplicasAreNotStarted) {
  FleetSpec spec = small_fleet(2, Routing::kRandom);
  const Workload workload = random_workload(7, 50, 1e6);
  const RunResult one = must_run(workload, spec);
  spec.num_threads = 1 << 30;
  expect_equal(one, must_run(workload, spec));
}

TEST(Fleet, MemoryOfThisMachineIsCountedBeforeTheRun) {
  const Workload workload = random_workload(7, 50, 1e6);
  FleetSpec spec = small_fleet(3, Routing::kRandom);
  const int64_t each = Replica::book_bytes(spec.pools[0].replica).value();
  EXPECT_GT(each, 200 * 4 * 4);
  spec.memory_bytes = each;  // replicas that run apart exist one at a time
  must_run(workload, spec);
  spec.one_heap = true;
  EXPECT_EQ(run(workload, spec).status().code(), StatusCode::kResourceExhausted);
  spec.memory_bytes = 3 * each;
  must_run(workload, spec);
  spec.pools[0].autoscale.max_replicas = 4;
  EXPECT_EQ(run(workload, spec).status().code(), StatusCode::kResourceExhausted);
}

// A request that arrives during step n joins step n + 1, or step n + 2 with async_scheduling, where
// step n + 1 is planned already.
TEST(Fleet, AsyncSchedulingPlansAStepAhead) {
  FleetSpec spec = small_fleet();
  auto timer = std::make_shared<AffineTimer>();
  timer->step_ns = 1e6;
  spec.pools[0].replica.timer = timer;
  Workload workload;
  for (const int64_t arrival_ns : {0, 4'300'000}) {
    SimRequest request{.arrival_ns = arrival_ns, .input_tokens = 5, .output_tokens = 20};
    request.content = stream_id(1, static_cast<uint64_t>(arrival_ns));
    workload.requests.push_back(request);
  }
  for (const bool fast_forward : {false, true}) {
    spec.pools[0].replica.fast_forward = fast_forward;
    spec.pools[0].replica.engine.scheduler.async_scheduling = false;
    EXPECT_EQ(must_run(workload, spec).records[1].first_token_ns, 6'000'000);
    spec.pools[0].replica.engine.scheduler.async_scheduling = true;
    const RunResult result = must_run(workload, spec);
    EXPECT_EQ(result.records[0].first_token_ns, 1'000'000);
    EXPECT_EQ(result.records[1].first_token_ns, 7'000'000);
    EXPECT_EQ(result.records[0].last_token_ns, 20'000'000);
    EXPECT_EQ(result.records[1].last_token_ns, 26'000'000);
  }
}

TEST(Fleet, LittlesLawHoldsWithinNoise) {
  const Workload workload = random_workload(5, 4000, 8e6);
  FleetSpec spec = small_fleet();
  const RunResult result = must_run(workload, spec);
  // Checks Little's law L = λ W, where L is the mean number of requests in the system: running and
  // waiting, by the timeline.
  double in_system_ns = 0, total_ns = 0;
  for (const TimeSlice& slice : result.stats.timeline.slices()) {
    in_system_ns += static_cast<double>(slice.running_ns + slice.waiting_ns);
  }
  for (const RequestRecord& record : result.records) {
    total_ns += static_cast<double>(record.e2e_ns());
  }
  // A request waits for the end of the step during which it arrived; the timeline counts it from
  // the next.
  EXPECT_NEAR(in_system_ns / total_ns, 1.0, 0.08);
}

TEST(Fleet, PrefillAndDecodeApart) {
  FleetSpec spec = small_fleet();
  spec.pools[0].role = Role::kPrefill;
  spec.pools.push_back(spec.pools[0]);
  spec.pools[1].role = Role::kDecode;
  spec.pools[1].num_replicas = 2;
  spec.router.routing = Routing::kLeastTokens;
  spec.transfer = {.bytes_per_s = 1e8, .latency_ns = 10'000};
  const Workload workload = random_workload(3, 200, 4e6);
  const RunResult result = must_run(workload, spec);
  check_run(workload, result);
  int64_t num_received = 0;
  for (const ReplicaRun& replica : result.replicas) num_received += replica.counters.num_received;
  int64_t num_longer = 0;
  for (const SimRequest& r : workload.requests) num_longer += r.output_tokens > 1;
  EXPECT_EQ(num_received, num_longer);
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    if (workload.requests[i].output_tokens < 2) continue;
    const int64_t transfer_ns = workload.requests[i].input_tokens * 1024 * 10 + 10'000;
    EXPECT_GE(result.records[i].decode_parts[static_cast<size_t>(Cause::kNetwork)], transfer_ns);
  }
}

TEST(Fleet, TierAnswersWhatTheCacheLost) {
  FleetSpec spec = small_fleet();
  spec.pools[0].replica.engine.num_blocks = 110;
  // Two long prefixes, which do not fit into the cache together, alternate.
  Workload workload = random_workload(3, 60, 4e7);
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    SimRequest& r = workload.requests[i];
    r.prefix = stream_id(9, i % 3);
    r.prefix_tokens = 200;
    r.input_tokens = 220;
  }
  const RunResult without = must_run(workload, spec);
  spec.pools[0].replica.tier = {
      .capacity_tokens = 100'000, .bytes_per_s = 1e12, .latency_ns = 1000};
  const RunResult with = must_run(workload, spec);
  check_run(workload, with);
  EXPECT_GT(with.replicas[0].counters.tier_hits, 30 * 200);
  EXPECT_LT(with.replicas[0].counters.busy_ns, without.replicas[0].counters.busy_ns);
}

TEST(Fleet, ReplicasComeWithTheLoadAndGo) {
  FleetSpec spec = small_fleet(1, Routing::kLeastRequests);
  spec.pools[0].autoscale = {.max_replicas = 4,
                             .target_requests = 4,
                             .interval_ns = 10'000'000,
                             .provisioning_ns = 50'000'000,
                             .scale_down_ns = 100'000'000};
  Workload workload = random_workload(3, 400, 1e6);
  Workload late = random_workload(4, 100, 4e7);
  for (SimRequest& r : late.requests) {
    r.arrival_ns += 3'000'000'000;
    workload.requests.push_back(r);
  }
  const RunResult result = must_run(workload, spec);
  check_run(workload, result);
  EXPECT_EQ(result.most_replicas, 4);
  int64_t paid_ns = 0;
  for (const ReplicaRun& replica : result.replicas) paid_ns += replica.paid_ns;
  EXPECT_LT(paid_ns, 3 * result.end_ns) << "nobody was sent home";
  EXPECT_GT(paid_ns, result.end_ns);
}

// Draws everything: one to three pools of any size, prefill and decode apart, tiers, autoscaling,
// little memory, any routing, a front end, pipelines.
FleetSpec random_fleet(std::mt19937_64& rng) {
  FleetSpec spec = small_fleet(test::pick(rng, 1, 3), static_cast<Routing>(rng() % 9));
  if (rng() % 2 == 0) spec.pools.push_back(spec.pools[0]);
  const bool apart = spec.pools.size() == 2 && rng() % 2 == 0;
  if (apart) {
    spec.pools[0].role = Role::kPrefill;
    spec.pools[1].role = Role::kDecode;
    if (rng() % 2 == 0) spec.pools.push_back(spec.pools[rng() % 2]);
  }
  for (PoolSpec& pool : spec.pools) {
    pool.num_replicas = test::pick(rng, 1, 3);
    pool.replica.engine.num_blocks = rng() % 2 == 0 ? 110 : 200;
    if (rng() % 3 == 0) {
      pool.replica.pipeline_depth = test::pick(rng, 2, 3);
    } else {
      pool.replica.engine.scheduler.async_scheduling = rng() % 2 == 0;
    }
    if (rng() % 3 == 0) {
      pool.replica.tier = {.capacity_tokens = test::pick(rng, 100, 5000),
                           .bytes_per_s = 1e8,
                           .latency_ns = test::pick(rng, 0, 100'000)};
    }
    if (rng() % 3 == 0) {
      pool.autoscale = {.max_replicas = pool.num_replicas + test::pick(rng, 0, 3),
                        .target_requests = static_cast<double>(test::pick(rng, 1, 8)),
                        .interval_ns = test::pick(rng, 1'000'000, 30'000'000),
                        .provisioning_ns = test::pick(rng, 0, 60'000'000),
                        .scale_down_ns = test::pick(rng, 0, 100'000'000)};
    }
  }
  spec.transfer = {.bytes_per_s = rng() % 2 == 0 ? 1e8 : 1e10,
                   .latency_ns = test::pick(rng, 0, 500'000)};
  spec.admission_ns = rng() % 2 == 0 ? test::pick(rng, 0, 2'000'000) : 0;
  if (rng() % 4 == 0) spec.router.stale_ns = test::pick(rng, 1, 20'000'000);
  spec.router.seed = rng();
  return spec;
}

TEST(Fleet, ConservesEverythingOnRandomDeployments) {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 rng(seed);
    FleetSpec spec = random_fleet(rng);
    Workload workload = rng() % 2 == 0 ? random_workload(seed, 80, 1e6 * test::pick(rng, 1, 6))
                                       : random_sessions(seed, 80);
    if (rng() % 5 == 0 && workload.open_loop()) {
      workload.closed_loop = ClosedLoop{.concurrency = test::pick(rng, 1, 12)};
    }
    const RunResult result = must_run(workload, spec);
    check_run(workload, result);
    int64_t transferred = 0, received = 0;
    for (const ReplicaRun& replica : result.replicas) {
      received += replica.counters.num_received;
      transferred = result.transferred_tokens;
      EXPECT_LE(replica.counters.peak_kv_blocks, replica.counters.num_kv_blocks);
      EXPECT_LE(replica.counters.peak_running, 8);
    }
    EXPECT_EQ(received > 0, transferred > 0);
    spec.one_heap = true;
    expect_equal(result, must_run(workload, spec));
    if (HasFailure()) return;
  }
}

TEST(Fleet, ToyModelOnALargeDeviceTakesBoundedMemory) {
  FleetSpec spec = small_fleet();
  spec.pools[0].replica.engine.num_blocks.reset();
  spec.pools[0].replica.kv_spec.block_bytes = 4;
  spec.pools[0].replica.kv_bytes = int64_t{141} * 1'000'000'000;
  const Workload workload = random_workload(1, 20, 1e6);
  const RunResult result = must_run(workload, spec);
  check_run(workload, result);
  EXPECT_LE(result.replicas[0].counters.num_kv_blocks, 1 << 22);
}

// Returns a model with layers of three kinds: a state, attention, an MLP alone.
ModelShape hybrid_model() {
  ModelShape model{.name = "hybrid",
                   .hidden_size = 2048,
                   .vocab_size = 32000,
                   .max_model_len = 4096,
                   .groups = {}};
  LayerGroup state{.num_layers = 12, .attention = {}, .ffn = {}, .state = {}};
  state.state = {
      .in_rows = 10304, .inner_size = 4096, .num_floats = 542720, .token_flops = 3194880};
  LayerGroup attention{.num_layers = 2, .attention = {}, .ffn = {}, .state = {}};
  attention.attention = {.num_heads = 16, .num_kv_heads = 4, .head_dim = 128};
  LayerGroup mlp{.num_layers = 2, .attention = {}, .ffn = {}, .state = {}};
  mlp.ffn = {.intermediate_size = 8192};
  model.groups = {state, attention, mlp};
  return model;
}

// The engine's own block accounting manages states: with too few blocks requests wait for each
// other, and prompts with the same beginning continue from a snapshot.
TEST(Fleet, ModelsWithStatesRun) {
  PoolOptions options;
  options.model = hybrid_model();
  options.hardware = find_hardware("h100-sxm").value();
  options.state_block_size = 64;
  options.engine.scheduler.max_num_batched_tokens = 512;
  const Result<PoolSpec> pool = make_pool(options);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  const KvSpec& spec = pool->replica.kv_spec;
  ASSERT_EQ(spec.groups.size(), 2u);
  EXPECT_EQ(spec.groups[1].kind, KvKind::kState);
  EXPECT_EQ(spec.groups[1].layers.size(), 12u);
  EXPECT_EQ(spec.state.block_bytes, 12 * 542720 * 4);
  EXPECT_EQ(spec.block_bytes, 16 * 2 * 2 * 4 * 128 * 2);

  const Workload workload = random_workload(5, 200, 2e5);
  FleetSpec fleet{.pools = {*pool}};
  const RunResult roomy = must_run(workload, fleet);
  check_run(workload, roomy);
  fleet.pools[0].replica.kv_bytes = 40 * spec.state.block_bytes;
  const RunResult short_of_states = must_run(workload, fleet);
  check_run(workload, short_of_states);
  EXPECT_LT(short_of_states.replicas[0].counters.peak_running,
            roomy.replicas[0].counters.peak_running);
}

TEST(Fleet, ModelsOfStatesAloneRun) {
  PoolOptions options;
  options.model = hybrid_model();
  options.model.groups.resize(1);
  options.hardware = find_hardware("h100-sxm").value();
  const Result<PoolSpec> pool = make_pool(options);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  EXPECT_FALSE(pool->replica.kv_spec.uses(KvPool::kAttention));
  PoolOptions bad = options;
  bad.offload_bytes = 1e9;
  EXPECT_NE(make_pool(bad).status().message().find("host memory"), std::string_view::npos);
  bad = options;
  bad.state_block_size = 40;
  EXPECT_NE(make_pool(bad).status().message().find("multiple"), std::string_view::npos);
  const Workload workload = random_workload(6, 100, 2e5);
  check_run(workload, must_run(workload, FleetSpec{.pools = {*pool}}));
}

TEST(Fleet, RefusesWhatNeverFitsAndGoesOn) {
  Workload workload = random_workload(3, 20, 4e6);
  workload.requests[7].input_tokens = 5000;
  const RunResult result = must_run(workload, small_fleet());
  for (size_t i = 0; i < result.records.size(); ++i) {
    EXPECT_EQ(result.records[i].outcome, i == 7 ? Outcome::kTooLong : Outcome::kCompleted);
  }
}

TEST(Fleet, StopsAtTheEndOfTime) {
  FleetSpec spec = small_fleet();
  spec.stop_ns = 200'000'000;
  const Workload workload = random_workload(3, 400, 4e6);
  const RunResult apart = must_run(workload, spec);
  EXPECT_LE(apart.end_ns, spec.stop_ns);
  int64_t num_unfinished = 0;
  for (const RequestRecord& r : apart.records) num_unfinished += r.outcome == Outcome::kUnfinished;
  EXPECT_GT(num_unfinished, 100);
}

TEST(Fleet, BadSpecsSayWhatWasExpected) {
  FleetSpec spec = small_fleet();
  spec.pools[0].role = Role::kPrefill;
  EXPECT_FALSE(run(random_workload(1, 5, 1e6), spec).ok());
  spec = small_fleet();
  spec.pools[0].num_replicas = 0;
  EXPECT_FALSE(run(random_workload(1, 5, 1e6), spec).ok());
  EXPECT_FALSE(parse_routing("fastest").ok());
}

TEST(Fleet, AnOutputThatOutgrowsTheModelEndsThere) {
  for (const Routing routing : {Routing::kRoundRobin, Routing::kLeastRequests}) {
    Workload workload = random_workload(3, 20, 1e6);
    workload.requests[7].output_tokens = 5000;
    const RunResult result = run(workload, small_fleet(2, routing)).value();
    EXPECT_EQ(result.records[7].outcome, Outcome::kCompleted);
    EXPECT_EQ(result.records[7].output_tokens, 400 - workload.requests[7].input_tokens);
  }
}

// The scheduler gets only the first waiting requests, unless its queue could refuse some; results
// must not differ.
TEST(Fleet, WhoWaitsOutsideTheSchedulerFaresTheSame) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Workload workload = random_workload(seed, 600, seed % 2 == 0 ? 1e4 : 2e6);
    workload.requests[40].output_tokens = 5000;  // ends at the model's maximum length
    if (seed % 3 == 0) workload.closed_loop = ClosedLoop{.concurrency = 120};
    FleetSpec spec = small_fleet(2, seed < 4 ? Routing::kRoundRobin : Routing::kLeastRequests);
    SchedulerConfig& config = spec.pools[0].replica.engine.scheduler;
    config.async_scheduling = seed % 2 == 0;
    config.max_num_queued_reqs = 1 << 20;
    config.max_num_queued_tokens = int64_t{1} << 40;
    const RunResult held = run(workload, spec).value();
    config.max_num_queued_reqs = 599;  // so that the scheduler must know all requests
    const RunResult known = run(workload, spec).value();
    EXPECT_EQ(held.records, known.records);
    EXPECT_EQ(held.end_ns, known.end_ns);
    EXPECT_EQ(held.stats.timeline.slices(), known.stats.timeline.slices());
    EXPECT_EQ(held.replicas[0].counters.peak_waiting, known.replicas[0].counters.peak_waiting);
  }
}

// The replica's draft planner decides: accepted drafts end requests sooner, drafts that fail cost
// little, and none are made if rows are expensive.
TEST(Speculation, HelpsAsMuchAsDraftsComeOut) {
  const Workload workload = random_workload(5, 40, 3e6);
  std::vector<int64_t> ends_ns;
  for (const double acceptance : {-1.0, 0.0, 0.5, 0.95}) {
    FleetSpec spec = small_fleet();
    ReplicaSpec& replica = spec.pools[0].replica;
    const auto times = RowTimes::create({{1, 1020}, {64, 1000 + 64 * 20}});
    ASSERT_TRUE(times.ok());
    replica.engine.scheduler.draft_planner.row_times = *times;
    replica.engine.scheduler.num_speculative_tokens = acceptance < 0 ? 0 : 4;
    replica.draft_acceptance = acceptance;
    const RunResult result = must_run(workload, spec);
    check_run(workload, result);
    expect_equal(result, must_run(workload, spec));
    ends_ns.push_back(result.replicas[0].counters.busy_ns);
  }
  EXPECT_LT(static_cast<double>(ends_ns[1]), 1.02 * static_cast<double>(ends_ns[0]));
  EXPECT_LT(static_cast<double>(ends_ns[2]), 0.95 * static_cast<double>(ends_ns[0]));
  EXPECT_LT(static_cast<double>(ends_ns[3]), 0.7 * static_cast<double>(ends_ns[0]));
}

// A drafting model helps less than drafts without cost, and one that is as slow as the served model
// is hardly used, because the planner weighs its steps.
TEST(Speculation, WeighsTheModelThatDrafts) {
  const Workload workload = random_workload(5, 40, 3e6);
  const auto busy_ns = [&](int32_t num_drafts, double drafting_ns) {
    FleetSpec spec = small_fleet();
    ReplicaSpec& replica = spec.pools[0].replica;
    replica.engine.scheduler.draft_planner.row_times =
        *RowTimes::create({{1, 1020}, {64, 1000 + 64 * 20}});
    replica.engine.scheduler.num_speculative_tokens = num_drafts;
    replica.draft_acceptance = 0.9;
    if (drafting_ns > 0) {
      AffineTimer timer;
      timer.step_ns = drafting_ns;
      replica.drafting = {
          .timer = std::make_shared<AffineTimer>(timer),
          .step_times = *RowTimes::create({{1, drafting_ns * 1e-3}, {64, drafting_ns * 1e-3}})};
    }
    const RunResult result = must_run(workload, spec);
    check_run(workload, result);
    return static_cast<double>(result.replicas[0].counters.busy_ns);
  };
  const double without = busy_ns(0, 0);
  const double free = busy_ns(4, 0);
  const double cheap = busy_ns(4, 0.1e6);
  EXPECT_LT(free, 0.8 * without);
  EXPECT_LT(1.02 * free, cheap);
  EXPECT_LT(cheap, 0.95 * without);
  EXPECT_LT(busy_ns(4, 1.5e6), 1.05 * without);
}

// For the first draft of a request the model reads everything before it, and for later drafts only
// what it has not read.
TEST(Speculation, DraftersReadWhatTheyHaveNotRead) {
  AffineTimer timer;
  timer.step_ns = 1000;
  timer.token_ns = 10;
  DraftingWork work;
  int32_t num_read = 0;
  work.add({.num_computed_tokens = 99, .num_scheduled_tokens = 4, .num_drafts = 3}, timer,
           num_read);
  EXPECT_EQ(work.ns(timer), 3 * 1000 + 10 * (100 + 1 + 1));
  EXPECT_EQ(num_read, 102);
  work.clear();
  EXPECT_EQ(work.ns(timer), 0);
  work.add({.num_computed_tokens = 103, .num_scheduled_tokens = 2, .num_drafts = 1}, timer,
           num_read);
  EXPECT_EQ(work.ns(timer), 1000 + 10 * 2);  // all drafts were accepted, and one token follows them
  work.clear();
  num_read = 110;
  work.add({.num_computed_tokens = 105, .num_scheduled_tokens = 2, .num_drafts = 1}, timer,
           num_read);
  EXPECT_EQ(work.ns(timer), 1000 + 10);  // some of its drafts were not accepted
  EXPECT_EQ(num_read, 106);
}

}  // namespace
}  // namespace quire::sim
