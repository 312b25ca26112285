#include "quire/bench/step_report.h"

#include <gtest/gtest.h>

#include "server/http/metrics_text.h"

namespace quire::bench {
namespace {

EngineStats stats_of(int64_t scale) {
  EngineStats stats;
  stats.steps = static_cast<uint64_t>(scale);
  stats.steps_failed = 99;  // a name with the beginning of another one
  stats.step_us = static_cast<uint64_t>(4000 * scale);
  stats.step_bound_us = static_cast<uint64_t>(3000 * scale);
  stats.step_time = {.schedule_us = 10 * scale,
                     .execute_us = 3950 * scale,
                     .update_us = 40 * scale,
                     .executor = {.inputs_us = 1 * scale,
                                  .forward_us = 3000 * scale,
                                  .logits_us = 800 * scale,
                                  .sample_us = 149 * scale}};
  return stats;
}

void expect_equal(const StepUse& a, const StepUse& b) {
  EXPECT_EQ(a.num_steps, b.num_steps);
  EXPECT_EQ(a.time.schedule_us, b.time.schedule_us);
  EXPECT_EQ(a.time.execute_us, b.time.execute_us);
  EXPECT_EQ(a.time.update_us, b.time.update_us);
  EXPECT_EQ(a.time.executor.inputs_us, b.time.executor.inputs_us);
  EXPECT_EQ(a.time.executor.forward_us, b.time.executor.forward_us);
  EXPECT_EQ(a.time.executor.logits_us, b.time.executor.logits_us);
  EXPECT_EQ(a.time.executor.sample_us, b.time.executor.sample_us);
  EXPECT_EQ(a.http_cpu_s, b.http_cpu_s);
  EXPECT_EQ(a.measured_us, b.measured_us);
  EXPECT_EQ(a.bound_us, b.bound_us);
}

// A server's /metrics must show the values of the engine's own counters, also if numbers are
// printed with exponents.
TEST(StepReport, MetricsTellWhatTheCountersDo) {
  for (const int64_t scale : {1, 1000, 1'000'000}) {
    const EngineStats stats = stats_of(scale);
    const std::string text = server::engine_metrics_text({&stats, 1}, "model", 0);
    std::optional<StepUse> use = parse_step_use(text);
    ASSERT_TRUE(use);
    expect_equal(*use, step_use(stats));
    use = parse_step_use(text + "quire:http_cpu_seconds_total 1.5\n");
    ASSERT_TRUE(use);
    EXPECT_EQ(use->http_cpu_s, 1.5);
  }
}

TEST(StepReport, OtherServersHaveNoSteps) {
  EXPECT_FALSE(parse_step_use(""));
  EXPECT_FALSE(parse_step_use("vllm:prompt_tokens_total 3.0\nquire:steps_total_of_another 4\n"));
}

TEST(StepReport, SharesAreOfTheRun) {
  const StepUse use = since(step_use(stats_of(1)), step_use(stats_of(11)));
  expect_equal(use, step_use(stats_of(10)));
  EXPECT_EQ(bound_share(use), 0.75);
  EXPECT_NEAR(executor_share(use, 0.079), 0.5, 1e-9);
  EXPECT_FALSE(bound_share({}));
  EXPECT_EQ(executor_share({}, 0), 0);
}

}  // namespace
}  // namespace quire::bench
