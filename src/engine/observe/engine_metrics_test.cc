#include "engine/observe/engine_metrics.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quire {
namespace {

TEST(Histogram, BoundsAreInclusive) {
  Histogram h({1, 5, 10});
  for (const double x : {0.5, 1.0, 1.1, 5.0, 10.0, 10.5}) h.observe(x);
  h.observe(7, 3);
  EXPECT_EQ(h.counts, (std::vector<uint64_t>{2, 2, 4, 1}));
  EXPECT_EQ(h.count, 9u);
  EXPECT_NEAR(h.sum, 28.1 + 21, 1e-12);
}

// The bounds are those that vLLM publishes, so that dashboards made for vLLM work.
TEST(Buckets, AreThePublishedOnes) {
  EXPECT_EQ(buckets::time_to_first_token_s(),
            (std::vector<double>{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                 1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560}));
  EXPECT_EQ(buckets::latency_s(),
            (std::vector<double>{.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}));
  EXPECT_EQ(buckets::one_two_five(1000),
            (std::vector<double>{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}));
  EXPECT_EQ(buckets::one_two_five(4096).back(), 2000);
  EXPECT_EQ(buckets::one_two_five(INT64_MAX).size(), 57u);
  EXPECT_EQ(buckets::iteration_tokens(),
            (std::vector<double>{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}));
  // All of vLLM's inter-token bounds, with finer ones before them.
  const auto itl = buckets::inter_token_s();
  const std::vector<double> coarse{.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                   .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
  EXPECT_EQ(std::vector<double>(itl.end() - static_cast<std::ptrdiff_t>(coarse.size()), itl.end()),
            coarse);
  EXPECT_EQ(std::vector<double>(itl.begin(), itl.begin() + 6),
            (std::vector<double>{.0005, .001, .002, .003, .005, .0075}));
}

TEST(RecentWindow, KeepsTheLastValues) {
  RecentWindow window;
  EXPECT_FALSE(window.percentiles().p50.has_value());
  window.add(3);
  EXPECT_EQ(window.percentiles().p50, 3.0);
  EXPECT_EQ(window.percentiles().p99, 3.0);
  for (int i = 0; i < 10000; ++i) window.add(1e9);
  for (int i = 1; i <= 2048; ++i) window.add(i);
  EXPECT_EQ(window.percentiles().p50, 1024.0);
  EXPECT_EQ(window.percentiles().p90, 1844.0);
  EXPECT_EQ(window.percentiles().p99, 2028.0);
}

EngineStats constants() {
  EngineStats stats;
  stats.max_model_len = 1000;
  return stats;
}

TEST(EngineMetrics, TimesFollowTheirDefinitions) {
  EngineMetrics metrics(constants());
  FinishedChoice choice;
  choice.times = {.arrival_us = 1'000'000,
                  .queued_us = 1'100'000,
                  .first_scheduled_us = 1'400'000,
                  .first_token_us = 2'000'000,
                  .last_token_us = 4'000'000};
  choice.num_prompt_tokens = 30;
  choice.num_cached_tokens = 10;
  choice.num_output_tokens = 5;
  choice.max_tokens = 7;
  metrics.on_finished(FinishReason::kStop, choice);
  const EngineStats s = metrics.snapshot(5'000'000, 2);
  EXPECT_NEAR(s.request_queue_time_seconds.sum, 0.3, 1e-9);
  EXPECT_NEAR(s.request_prefill_time_seconds.sum, 0.6, 1e-9);
  EXPECT_NEAR(s.request_decode_time_seconds.sum, 2.0, 1e-9);
  EXPECT_NEAR(s.request_inference_time_seconds.sum, 2.6, 1e-9);
  EXPECT_NEAR(s.e2e_request_latency_seconds.sum, 3.0, 1e-9);
  EXPECT_NEAR(s.request_time_per_output_token_seconds.sum, 0.5, 1e-9);
  EXPECT_EQ(s.request_prefill_kv_computed_tokens.sum, 20.0);
  EXPECT_EQ(s.request_params_max_tokens.sum, 7.0);
  EXPECT_EQ(s.request_success_stop, 1u);
  EXPECT_EQ(s.uptime_s, 5.0);
  EXPECT_EQ(s.num_requests_waiting, 2);
  EXPECT_EQ(s.num_requests_waiting_capacity + s.num_requests_waiting_deferred, 2);
}

TEST(EngineMetrics, OneTokenHasNoTimePerToken) {
  EngineMetrics metrics(constants());
  FinishedChoice choice;
  choice.num_output_tokens = 1;
  metrics.on_finished(FinishReason::kLength, choice);
  const EngineStats s = metrics.snapshot(0, 0);
  EXPECT_EQ(s.request_time_per_output_token_seconds.sum, 0.0);
  EXPECT_EQ(s.request_time_per_output_token_seconds.count, 1u);
}

TEST(EngineMetrics, FailuresAreCountedButNotTimed) {
  EngineMetrics metrics(constants());
  metrics.on_finished(FinishReason::kAbort, {});
  metrics.on_finished(FinishReason::kError, {});
  const EngineStats s = metrics.snapshot(0, 0);
  EXPECT_EQ(s.request_success_abort, 1u);
  EXPECT_EQ(s.request_success_error, 1u);
  EXPECT_EQ(s.e2e_request_latency_seconds.count, 0u);
}

TEST(EngineMetrics, TheCacheOfMediaIsCounted) {
  EngineMetrics metrics(constants());
  metrics.set_gauges({}, {.num_queries = 5, .num_hits = 2}, {}, {});
  const EngineStats s = metrics.snapshot(0, 0);
  EXPECT_EQ(s.media_cache_queries, 5u);
  EXPECT_EQ(s.media_cache_hits, 2u);
}

TEST(EngineMetrics, PartsOfStepsAddUp) {
  EngineMetrics metrics(constants());
  StepRecord step{.schedule_us = 1, .execute_us = 20, .update_us = 300};
  step.executor = {.inputs_us = 2,
                   .forward_us = 4,
                   .logits_us = 6,
                   .sample_us = 8,
                   .num_members = 3,
                   .late_members = 2};
  metrics.on_step(step);
  step.failed = true;
  metrics.on_step(step);
  const StepTimeTotals total = metrics.snapshot(0, 0).step_time;
  EXPECT_EQ(total.schedule_us, 2);
  EXPECT_EQ(total.execute_us, 40);
  EXPECT_EQ(total.update_us, 600);
  EXPECT_EQ(total.executor.inputs_us, 4);
  EXPECT_EQ(total.executor.forward_us, 8);
  EXPECT_EQ(total.executor.logits_us, 12);
  EXPECT_EQ(total.executor.sample_us, 16);
  EXPECT_EQ(total.executor.num_members, 3);
  EXPECT_EQ(total.executor.late_members, 4);
}

TEST(EngineMetrics, ResidencySamplesSpread) {
  EngineMetrics metrics(constants());
  ResidencySample sample;
  sample.lifetime_us = 3'000'000;
  sample.idle_us = 1'000'000;
  sample.num_reuse_gaps = 2;
  sample.reuse_gap_us[0] = 500'000;
  sample.reuse_gap_us[1] = 1'500'000;
  metrics.on_residency({sample, sample});
  const EngineStats s = metrics.snapshot(0, 0);
  EXPECT_EQ(s.kv_block_lifetime_seconds.sum, 6.0);
  EXPECT_EQ(s.kv_block_idle_before_evict_seconds.sum, 2.0);
  EXPECT_EQ(s.kv_block_reuse_gap_seconds.count, 4u);
  EXPECT_EQ(s.kv_block_reuse_gap_seconds.sum, 4.0);
}

}  // namespace
}  // namespace quire
