// Least-delay routing is never worse on whole runs than policies that look at load alone or at
// nothing, with and without shared prefixes, at low, middle and high load.
#include <gtest/gtest.h>

#include "sim/fleet/fleet.h"
#include "sim/fleet/route_speed.h"
#include "sim/report/summary.h"
#include "sim/testing/sim_test_support.h"

namespace quire::sim {
namespace {

constexpr int32_t kNumReplicas = 6;

FleetSpec fleet(Routing routing) {
  FleetSpec spec = test::small_fleet(kNumReplicas, routing);
  ReplicaSpec& replica = spec.pools[0].replica;
  replica.engine.num_blocks = 2000;
  replica.engine.scheduler.max_model_len = 2000;
  replica.engine.scheduler.max_num_seqs = 64;
  replica.engine.scheduler.max_num_batched_tokens = 512;
  replica.model.max_model_len = 2000;
  replica.kv_bytes = 2000 * 4096;
  return spec;
}

// Returns sessions of a few groups with shared prefixes, some of them long and some groups popular.
Workload grouped(uint64_t seed, double mean_gap_ns, bool shares) {
  std::mt19937_64 rng(seed);
  Workload workload = test::random_workload(seed, 1500, mean_gap_ns);
  for (SimRequest& request : workload.requests) {
    const uint64_t group = std::min(rng() % 24, rng() % 24);
    request.prefix = stream_id(7, shares ? group : rng());
    request.prefix_tokens = static_cast<int32_t>(200 + 40 * (group % 16));
    request.input_tokens = request.prefix_tokens + test::pick(rng, 10, 100);
    request.output_tokens = test::pick(rng, 5, 80);
    request.priority = 0;
  }
  return workload;
}

Summary summary_of(const Workload& workload, Routing routing) {
  const FleetSpec spec = fleet(routing);
  return summarize(spec, run(workload, spec).value(), {});
}

class LeastDelay : public ::testing::TestWithParam<double> {};

TEST_P(LeastDelay, IsNeverWorse) {
  for (const bool shares : {false, true}) {
    SCOPED_TRACE(shares ? "shared beginnings" : "nothing shared");
    const Workload workload = grouped(5, GetParam(), shares);
    const Summary ours = summary_of(workload, Routing::kLeastDelay);
    for (const Routing routing : {Routing::kRoundRobin, Routing::kLeastRequests,
                                  Routing::kLeastTokens, Routing::kPrefixAware}) {
      SCOPED_TRACE(to_string(routing));
      const Summary other = summary_of(workload, routing);
      EXPECT_LE(ours.ttft_ms.mean, 1.03 * other.ttft_ms.mean);
      EXPECT_LE(ours.tpot_ms.mean, 1.03 * other.tpot_ms.mean);
      EXPECT_LE(ours.e2e_ms.mean, 1.02 * other.e2e_ms.mean);
      EXPECT_LE(ours.ttft_ms.p99, 1.10 * other.ttft_ms.p99);
    }
    const Summary best = summary_of(workload, Routing::kOracle);
    EXPECT_LE(ours.e2e_ms.mean, 1.10 * best.e2e_ms.mean);
  }
}

// Mean gaps at which the fleet is a fifth, half and nearly fully busy.
INSTANTIATE_TEST_SUITE_P(Loads, LeastDelay, ::testing::Values(12e6, 4e6, 2.2e6));

TEST(LeastDelayRouting, SharedBeginningsAreHitMoreOften) {
  const Workload workload = grouped(5, 4e6, true);
  const Summary ours = summary_of(workload, Routing::kLeastDelay);
  const Summary load_alone = summary_of(workload, Routing::kLeastRequests);
  EXPECT_GT(ours.hit_rate, load_alone.hit_rate);
  EXPECT_LT(ours.ttft_ms.mean, load_alone.ttft_ms.mean);
}

// quire route only remembers what it has sent. A router that could read all caches at any time
// would have hardly more hits.
TEST(RememberedPrefixes, AreHitAsOftenAsThoseThatAreLookedUp) {
  for (const double mean_gap_ns : {12e6, 4e6, 2.2e6}) {
    SCOPED_TRACE(mean_gap_ns);
    const Workload workload = grouped(5, mean_gap_ns, true);
    const auto hit_rate = [&](Routing routing, bool remembers) {
      FleetSpec spec = fleet(routing);
      spec.router.remembers_prefixes = remembers;
      return summarize(spec, run(workload, spec).value(), {}).hit_rate;
    };
    const double remembered = hit_rate(Routing::kPrefixAware, true);
    EXPECT_GE(remembered, hit_rate(Routing::kPrefixAware, false) - 0.02);
    EXPECT_GT(remembered, hit_rate(Routing::kLeastRequests, false));
  }
}

TEST(RouteSpeed, IsThatOfTheTimer) {
  ReplicaSpec spec = test::small_replica();
  auto timer = std::make_shared<AffineTimer>();
  timer->step_ns = 1e6;
  timer->token_ns = 2e4;
  timer->context_ns = 30;
  spec.timer = timer;
  spec.engine.scheduler.max_num_batched_tokens = 512;
  const RouteSpeed speed = route_speed(spec, 1000);
  EXPECT_NEAR(speed.decode_us_per_context_token, 0.030, 1e-4);
  EXPECT_NEAR(speed.decode_us_per_request, 20, 0.2);
  // A chunk of 512 tokens takes a step of 1 ms and 20 us per token.
  EXPECT_NEAR(speed.prefill_us(512, 0), 1000 + 512 * 20, 0.02 * (1000 + 512 * 20));
  EXPECT_EQ(speed.kv_tokens, 1000);
}

}  // namespace
}  // namespace quire::sim
