#include "sim/ablation.h"

#include <gtest/gtest.h>

#include "sim/testing/sim_test_support.h"

namespace quire::sim {
namespace {

// Outputs with a heavy tail, all there from the start, as far as the cache allows.
Workload heavy_tail() {
  Workload workload = test::random_workload(11, 300, 1e5);
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    workload.requests[i].output_tokens = i % 10 == 0 ? 150 : 10;
    workload.requests[i].priority = 0;
  }
  return workload;
}

FleetSpec fleet() {
  FleetSpec spec = test::small_fleet();
  spec.pools[0].replica.engine.scheduler.max_num_seqs = 32;
  spec.pools[0].replica.engine.scheduler.max_num_batched_tokens = 128;
  spec.pools[0].replica.engine.scheduler.max_model_len = 300;
  return spec;
}

TEST(Ablation, EachStepFromTheOldestModeToOursGains) {
  const auto runs = run_modes(heavy_tail(), fleet(), {});
  ASSERT_TRUE(runs.ok()) << runs.status().message();
  ASSERT_EQ(runs->size(), 4u);
  const auto rate = [&](size_t i) { return (*runs)[i].summary.request_throughput; };
  for (const ModeRun& run : *runs) EXPECT_EQ(run.summary.num_completed, 300);
  EXPECT_GT(rate(1), rate(0));  // paging lets more in
  EXPECT_GT(rate(2), rate(0));  // places are filled again at once
  EXPECT_GT(rate(3), 1.5 * rate(1));
  EXPECT_GT(rate(3), 1.5 * rate(2));
  // Of 199 blocks of 4 tokens two requests fit, for each of which 300 tokens are reserved.
  EXPECT_LE((*runs)[2].summary.counters.peak_running, 2);
  EXPECT_GT((*runs)[2].summary.wasted_kv_share, 0.6);
  EXPECT_LT((*runs)[3].summary.wasted_kv_share, 0.1);
}

// Where all outputs are equal, whoever is in a batch ends with it: only paging is left to gain by.
TEST(Ablation, EqualOutputsGainNothingFromContinuousBatchesAlone) {
  Workload workload = heavy_tail();
  for (SimRequest& request : workload.requests) {
    request.output_tokens = 40;
    request.input_tokens = 40;
  }
  const auto runs = run_modes(workload, fleet(), {}).value();
  EXPECT_NEAR(runs[2].summary.request_throughput / runs[0].summary.request_throughput, 1, 0.1);
  EXPECT_GT(runs[3].summary.request_throughput, 2.5 * runs[2].summary.request_throughput);
}

TEST(Ablation, ReportsNameEveryMode) {
  const auto runs = run_modes(heavy_tail(), fleet(), {}).value();
  for (const std::string& text : {ablation_text(runs, {{"model", "toy"}}), ablation_json(runs),
                                  ablation_html(runs, {{"model", "toy"}})}) {
    for (const ServingMode& mode : serving_modes()) {
      EXPECT_NE(text.find(mode.name), std::string::npos);
    }
  }
  EXPECT_EQ(ablation_text(runs, {}),
            ablation_text(run_modes(heavy_tail(), fleet(), {}).value(), {}));
}

}  // namespace
}  // namespace quire::sim
