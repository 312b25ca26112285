#include "sim/workload/adapters.h"

#include <gtest/gtest.h>

#include <map>

#include "roofline/testing/test_models.h"
#include "sim/fleet/deployment.h"
#include "sim/report/summary.h"
#include "sim/workload/trace.h"

namespace quire::sim {
namespace {

Workload workload_of(int32_t count, int32_t num_adapters) {
  Workload workload{.name = "test"};
  for (int32_t i = 0; i < count; ++i) {
    workload.requests.push_back({.arrival_ns = i * int64_t{20'000'000},
                                 .input_tokens = 200 + i % 50,
                                 .output_tokens = 100,
                                 .content = static_cast<uint64_t>(i) + 1});
  }
  assign_adapters({.num_adapters = num_adapters, .skew = 0.5, .seed = 4}, workload);
  return workload;
}

PoolOptions pool_of(int32_t rank, int32_t max_loras = 0) {
  PoolOptions options;
  options.model = test::model_of(test::kLlama31_8B);
  options.hardware = find_hardware("h100-sxm").value();
  options.engine.scheduler.async_scheduling = true;
  options.engine.scheduler.max_loras = max_loras;
  options.lora_rank = rank;
  return options;
}

Summary simulate(const Workload& workload, const PoolOptions& options) {
  FleetSpec spec;
  spec.pools.push_back(make_pool(options).value());
  return summarize(spec, run(workload, spec).value(), {});
}

TEST(Adapters, PopularOnesAreAskedForMoreOften) {
  std::map<int32_t, int32_t> counts;
  for (const SimRequest& r : workload_of(4'000, 8).requests) ++counts[r.adapter];
  ASSERT_EQ(counts.size(), 8u);
  EXPECT_EQ(counts.count(0), 0u);
  EXPECT_NEAR(counts[1] / static_cast<double>(counts[4]), 2, 0.4);
}

TEST(Adapters, TurnsAndPrefixesKeepTheirs) {
  Workload workload = workload_of(40, 0);
  for (size_t i = 0; i < 40; ++i) {
    workload.requests[i].prefix = 1 + i % 3;
    workload.requests[i].prefix_tokens = 32;
  }
  workload.requests[39].previous = 0;
  assign_adapters({.num_adapters = 16}, workload);
  for (size_t i = 3; i < 39; ++i) {
    EXPECT_EQ(workload.requests[i].adapter, workload.requests[i - 3].adapter);
  }
  EXPECT_EQ(workload.requests[39].adapter, workload.requests[0].adapter);
  const std::string text = write_trace(workload);
  EXPECT_EQ(parse_trace(text, "again").value().requests, workload.requests);
}

TEST(Adapters, StepsTakeLongerByWhatIsReadForThem) {
  const AdapterTimes small =
      adapter_times(test::model_of(test::kLlama31_8B), find_hardware("h100-sxm").value(), {}, 8);
  const AdapterTimes large =
      adapter_times(test::model_of(test::kLlama31_8B), find_hardware("h100-sxm").value(), {}, 64);
  // 32 layers of qkv 4096 -> 6144, out 4096 -> 4096, gate and up 4096 -> 28672, down 14336 -> 4096.
  EXPECT_DOUBLE_EQ(small.bytes, 32.0 * (10'240 + 8'192 + 32'768 + 18'432) * 8 * 2);
  EXPECT_DOUBLE_EQ(large.adapter_us, 8 * small.adapter_us);
  EXPECT_EQ(small.step_ns(0, 100), 0);
  EXPECT_GT(small.step_ns(4, 100), small.step_ns(2, 100));
  const Workload workload = workload_of(300, 8);
  const double without = simulate(workload, pool_of(0)).tpot_ms.mean;
  const double with = simulate(workload, pool_of(16)).tpot_ms.mean;
  EXPECT_GT(with, 1.02 * without);
  EXPECT_LT(with, 2 * without);
}

TEST(Adapters, RunsOfDecodesAreAsStepByStep) {
  const Workload workload = workload_of(200, 5);
  PoolOptions options = pool_of(16, 2);
  const Summary fast = simulate(workload, options);
  options.fast_forward = false;
  const Summary slow = simulate(workload, options);
  EXPECT_EQ(fast.duration_s, slow.duration_s);
  EXPECT_EQ(fast.e2e_ms.mean, slow.e2e_ms.mean);
}

TEST(Adapters, OneAtATimeMakesOthersWait) {
  const Workload workload = workload_of(200, 8);
  const double free = simulate(workload, pool_of(16)).queue_ms.mean;
  const double bound = simulate(workload, pool_of(16, 1)).queue_ms.mean;
  EXPECT_GT(bound, free + 10);
}

TEST(Adapters, KvIsOfOneAdapter) {
  Workload workload = workload_of(60, 0);
  for (SimRequest& r : workload.requests) r.content = 5;
  EXPECT_GT(simulate(workload, pool_of(16)).hit_rate, 0.8);
  for (size_t i = 0; i < 60; ++i) {
    workload.requests[i].adapter = static_cast<int32_t>(i) + 1;
  }
  EXPECT_EQ(simulate(workload, pool_of(16)).hit_rate, 0);
}

TEST(Adapters, WhereKvIsKnownByTokensTheyAreRefused) {
  PoolOptions options = pool_of(16);
  options.role = Role::kPrefill;
  EXPECT_NE(make_pool(options).status().message().find("adapters: expected"),
            std::string_view::npos);
}

}  // namespace
}  // namespace quire::sim
