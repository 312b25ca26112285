#include "sim/fleet/block_merging.h"

#include <gtest/gtest.h>

#include <cmath>

#include "roofline/testing/test_models.h"
#include "sim/fleet/deployment.h"
#include "sim/report/summary.h"
#include "sim/workload/synthetic.h"

namespace quire::sim {
namespace {

Workload workload_of(int32_t input, int32_t output, int32_t count) {
  Workload workload{.name = "test"};
  for (int32_t i = 0; i < count; ++i) {
    workload.requests.push_back({.arrival_ns = i * int64_t{400'000'000},
                                 .input_tokens = input + i % 37,
                                 .output_tokens = output,
                                 .content = static_cast<uint64_t>(i) + 1});
  }
  return workload;
}

FleetSpec fleet_of() {
  PoolOptions options;
  options.model = quire::test::model_of(quire::test::kLlama31_8B);
  options.hardware = find_hardware("h100-sxm").value();
  options.engine.scheduler.max_num_batched_tokens = 8192;
  options.engine.scheduler.async_scheduling = true;
  FleetSpec spec;
  spec.pools.push_back(make_pool(options).value());
  return spec;
}

TEST(BlockMerging, LongPromptsTakeLargeBlocks) {
  EXPECT_EQ(mergeable_blocks(workload_of(100, 20, 50), 16), 1);
  EXPECT_EQ(mergeable_blocks(workload_of(12'000, 343, 50), 16), 16);
  EXPECT_EQ(mergeable_blocks(workload_of(12'000, 343, 50), 1), 128) << "SGLang's blocks of a token";
}

TEST(BlockMerging, SharedBeginningsKeepTheirBlocks) {
  Workload prefixed = workload_of(1'000, 100, 50);
  const int32_t alone = mergeable_blocks(prefixed, 16);
  for (SimRequest& r : prefixed.requests) r.prefix_tokens = 504;
  EXPECT_LT(mergeable_blocks(prefixed, 16), alone) << "504 is 24 behind a multiple of 32";
  for (SimRequest& r : prefixed.requests) r.prefix_tokens = 512;
  EXPECT_EQ(mergeable_blocks(prefixed, 16), alone);
  for (SimRequest& r : prefixed.requests) r.content = 7;
  EXPECT_LT(mergeable_blocks(prefixed, 16), alone) << "prompts that come again are cut anywhere";
}

TEST(BlockMerging, FiguresStayWithinOnePercent) {
  const Workload workload = workload_of(12'000, 200, 200);
  FleetSpec exact = fleet_of();
  FleetSpec merged = exact;
  EXPECT_EQ(merge_blocks(workload, merged), 16);
  const Summary a = summarize(exact, run(workload, exact).value(), {});
  const Summary b = summarize(merged, run(workload, merged).value(), {});
  for (const auto& [x, y] :
       {std::pair(a.ttft_ms.mean, b.ttft_ms.mean), std::pair(a.ttft_ms.p99, b.ttft_ms.p99),
        std::pair(a.tpot_ms.mean, b.tpot_ms.mean),
        std::pair(a.output_throughput, b.output_throughput)}) {
    EXPECT_NEAR(y, x, 0.01 * x);
  }
  EXPECT_NEAR(static_cast<double>(b.kv_tokens), static_cast<double>(a.kv_tokens), 300);
}

TEST(BlockMerging, PoolsWithOtherBlocksBoundTheFactor) {
  const Workload workload = workload_of(12'000, 343, 50);
  FleetSpec spec = fleet_of();
  spec.pools.push_back(spec.pools[0]);
  spec.pools[0].replica.kv_spec.block_size = 1;
  EXPECT_EQ(merge_blocks(workload, spec), 16);
  EXPECT_EQ(spec.pools[0].replica.kv_spec.block_size, 16);
  EXPECT_EQ(spec.pools[1].replica.kv_spec.block_size, 256);
}

TEST(BlockMerging, WhatCountsInBlocksKeepsThem) {
  const Workload workload = workload_of(12'000, 200, 10);
  FleetSpec asked = fleet_of();
  asked.pools[0].replica.engine.num_blocks = 5'000;
  EXPECT_EQ(merge_blocks(workload, asked), 1);
  FleetSpec tiered = fleet_of();
  tiered.pools[0].replica.tier.capacity_tokens = 1'000'000;
  EXPECT_EQ(merge_blocks(workload, tiered), 1);
  FleetSpec apart = fleet_of();
  apart.pools[0].role = Role::kPrefill;
  EXPECT_EQ(merge_blocks(workload, apart), 1);
}

}  // namespace
}  // namespace quire::sim
