#include "roofline/calibrate/calibrate_steps.h"

#include <gtest/gtest.h>

#include <random>

#include "roofline/calibrate/nnls.h"
#include "roofline/testing/test_models.h"

namespace quire {
namespace {

TEST(Nnls, MeetsWhatIsPossible) {
  // b = 2 a0 + 3 a2; column 1 must stay 0.
  const std::vector<double> rows = {1, 0, 0, 0, 1, 1, 1, 1, 2, 3, 0, 1};
  const std::vector<double> b = {2, 3, 8, 9};
  const std::vector<double> x = solve_nnls(rows, b, 3);
  EXPECT_NEAR(x[0], 2, 1e-6);
  EXPECT_NEAR(x[1], 0, 1e-6);
  EXPECT_NEAR(x[2], 3, 1e-6);
}

TEST(Nnls, NegativeSolutionsBecomeZero) {
  const std::vector<double> x =
      solve_nnls(std::vector<double>{1, 0, 0, 1}, std::vector<double>{-4, 5}, 2);
  EXPECT_EQ(x[0], 0);
  EXPECT_NEAR(x[1], 5, 1e-9);
}

Hardware machine() {
  Hardware hardware = find_hardware("cpu-avx512").value();
  hardware.cache_bytes = 0;
  return hardware;
}

// Returns the log of a machine with known constants, with noise and a few disturbed steps.
StepLog synthetic_log(const Hardware& truth, int count) {
  StepLog log;
  log.header.model = test::model_of(test::kLlama31_8B);
  const CostModel model = CostModel::create(log.header.model, truth).value();
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> noise(0.99, 1.01);
  for (int i = 0; i < count; ++i) {
    MeasuredStep step;
    const auto decodes = static_cast<int32_t>(rng() % 40);
    for (int32_t d = 0; d < decodes; ++d) {
      step.shape.add(static_cast<int32_t>(rng() % 4000), 1, true, {});
    }
    if (decodes == 0 || rng() % 2 == 0) {
      step.shape.add(static_cast<int32_t>(rng() % 2000), 2 + static_cast<int32_t>(rng() % 1000),
                     true, {});
    }
    double us = model.predict_us(step.shape) * noise(rng);
    if (i % 50 == 0) us *= 3;
    step.execute_us = static_cast<int64_t>(us);
    log.steps.push_back(step);
  }
  return log;
}

Hardware truth() {
  Hardware hardware = machine();
  for (const KernelKind kind : {KernelKind::kF32, KernelKind::kBf16, KernelKind::kInt8}) {
    hardware.gemm[kind].shares = {{1, 0.8}, {16, 0.6}, {256, 0.7}};
  }
  hardware.prefill_attention.softmax_flops = 0;
  hardware.host = {.step_us = 3000, .request_us = 200};
  return hardware;
}

TEST(FitSteps, PredictsStepsItHasNotSeen) {
  Hardware fitted = machine();
  const auto report = fit_steps(synthetic_log(truth(), 1500), fitted);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_LT(report->test_median, 1.5);
  EXPECT_GT(report->num_disturbed, 5);
}

// Chunks of few tokens that see a long context (shared prefixes, chunked prompts).
StepLog chunk_log(double memory_share) {
  Hardware real = truth();
  real.prefill_attention = {.compute_share = 0.3,
                            .softmax_flops = 0,
                            .tile_us = 0,
                            .memory_share = memory_share,
                            .exponent = 1,
                            .launch_us = 20};
  StepLog log;
  log.header.model = test::model_of(test::kLlama31_8B);
  const CostModel model = CostModel::create(log.header.model, real).value();
  std::mt19937_64 rng(3);
  for (int i = 0; i < 1200; ++i) {
    MeasuredStep step;
    const int32_t tokens = 2 << (rng() % 9);
    step.shape.add(static_cast<int32_t>(rng() % 8000), tokens, true, {});
    step.execute_us = static_cast<int64_t>(model.predict_us(step.shape));
    log.steps.push_back(step);
  }
  return log;
}

// Reads and multiplications of prompt attention have constants of their own.
TEST(FitSteps, TellsReadsOfPromptAttentionFromItsMultiplications) {
  Hardware fitted = machine();
  const auto report = fit_steps(chunk_log(0.02), fitted);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_LT(report->test_mape, 2.5);
  EXPECT_NEAR(fitted.prefill_attention.memory_share, 0.02, 0.002);
  EXPECT_NEAR(fitted.prefill_attention.compute_share, 0.3, 0.03);
}

// A machine may be far below the limits that its description claims.
TEST(FitSteps, WhatIsFittedCanBeReadBack) {
  Hardware fitted = machine();
  ASSERT_TRUE(fit_steps(chunk_log(3e-5), fitted).ok());
  EXPECT_LT(fitted.prefill_attention.memory_share, 0.01);
  const auto read = parse_hardware(to_json(fitted), "fitted.json");
  EXPECT_TRUE(read.ok()) << read.status().message();
}

// The time between two steps is a part of what a step costs.
TEST(FitSteps, TheGapBetweenStepsCounts) {
  StepLog log = synthetic_log(truth(), 1500);
  int64_t at_us = 0;
  for (MeasuredStep& step : log.steps) {
    step.begin_us = at_us;
    at_us += step.total_us() + 700;
  }
  Hardware without = machine(), with = machine();
  ASSERT_TRUE(fit_steps(synthetic_log(truth(), 1500), without).ok());
  const auto report = fit_steps(log, with);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->gap_us, 700);
  EXPECT_NEAR(with.host.step_us - without.host.step_us, 700, 150);
}

// Steps of short contexts on a machine that is up to 15 % faster or slower for spans of ten
// seconds, with nearly the same number of requests within each span.
StepLog drifting_log(const Hardware& real, uint64_t seed) {
  StepLog log;
  log.header.model = test::model_of(test::kLlama31_8B);
  const CostModel model = CostModel::create(log.header.model, real).value();
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> speed(0.85, 1.15), noise(0.95, 1.05);
  int64_t at_us = 0;
  for (int span = 0; span < 30; ++span) {
    const double slowness = speed(rng);
    const auto decodes = static_cast<int32_t>(8 + rng() % 24);
    const int64_t end_us = int64_t{span + 1} * 10'000'000;
    while (at_us < end_us) {
      MeasuredStep step;
      for (uint64_t d = 0; d < decodes + rng() % 4; ++d) {
        step.shape.add(static_cast<int32_t>(100 + rng() % 900), 1, true, {});
      }
      step.begin_us = at_us;
      step.execute_us = static_cast<int64_t>(model.predict_us(step.shape) * slowness * noise(rng));
      at_us += step.execute_us;
      log.steps.push_back(step);
    }
  }
  return log;
}

// From a run on a drifting machine, the fit must predict contexts that it never saw.
TEST(FitSteps, SeesThroughDrift) {
  Hardware real = truth();
  real.decode_attention = {.memory_share = 0.5, .compute_share = 0.5, .exponent = 1000};
  StepShape long_contexts;
  for (int d = 0; d < 20; ++d) long_contexts.add(8000, 1, true, {});
  const ModelShape model = test::model_of(test::kLlama31_8B);
  const double real_us = CostModel::create(model, real).value().predict_us(long_contexts);
  double sum = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Hardware fitted = machine();
    fitted.decode_attention = real.decode_attention;
    fitted.decode_attention.memory_share = 0.6;
    const auto report = fit_steps(drifting_log(real, seed), fitted);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_NEAR(report->drift, 8.7, 3);  // 30 % / sqrt(12)
    const double us = CostModel::create(model, fitted).value().predict_us(long_contexts);
    sum += std::abs(us / real_us - 1);
  }
  EXPECT_LT(sum / 5, 0.06);
}

// Two machines, or two runs of one, whose clocks both begin at 0.
TEST(FitSteps, SpansOfAnotherLogAreTheirOwn) {
  StepLog log = drifting_log(truth(), 1);
  const StepLog other = drifting_log(truth(), 2);
  log.steps.insert(log.steps.end(), other.steps.begin(), other.steps.end());
  Hardware fitted = machine();
  const auto report = fit_steps(log, fitted);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_NEAR(report->drift, 8.7, 1.5);  // 30 % / sqrt(12); merged spans would give 6.1
}

TEST(StepResiduals, CoverEveryStepAndJudgeWithoutFitting) {
  StepLog log = synthetic_log(truth(), 200);
  log.steps[5].failed = true;
  const auto residuals = step_residuals(log, truth());
  ASSERT_TRUE(residuals.ok()) << residuals.status().message();
  ASSERT_EQ(residuals->size(), 199u);
  for (const StepResidual& r : *residuals) {
    const bool disturbed = (r.step - log.steps.data()) % 50 == 0;
    if (!disturbed) {
      EXPECT_NEAR(r.predicted_us / r.measured_us, 1, 0.02);
    }
    EXPECT_EQ(r.kind == StepKind::kDecode, r.step->shape.chunks.empty());
  }
}

TEST(FitSteps, RefusesOtherHardwareOverloadAndTooLittle) {
  Hardware slow = machine();
  slow.memory_bytes_per_s /= 10;
  const StepLog log = synthetic_log(truth(), 400);
  EXPECT_NE(fit_steps(log, slow).status().message().find("faster than the limits"),
            std::string::npos);
  StepLog waiting = log;
  for (MeasuredStep& step : waiting.steps) step.num_waiting = 3;
  Hardware hardware = machine();
  EXPECT_NE(fit_steps(waiting, hardware).status().message().find("requests waited"),
            std::string::npos);
  EXPECT_TRUE(fit_steps(waiting, hardware, {.allow_overloaded = true}).ok());
  StepLog tiny = log;
  tiny.steps.resize(20);
  EXPECT_NE(fit_steps(tiny, hardware).status().message().find("expected at least"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
