#include "sched/step_time.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr StepTimeTable kTable{.step_us = 1000,
                               .decode_us = 50,
                               .context_us = 0.1,
                               .prompt_token_us = 20,
                               .prompt_context_us = 0.01};

TEST(StepTimePredictor, TokensWithinIsTheInverseOfPromptTime) {
  const StepTimePredictor predictor(kTable);
  for (const int32_t position : {0, 100, 30000}) {
    for (const int32_t n : {1, 17, 512, 8192}) {
      const double us = predictor.prompt_us(n, position);
      EXPECT_EQ(predictor.tokens_within(us * 1.000001, position), n) << position;
      EXPECT_EQ(predictor.tokens_within(us * 0.999999, position), n - 1) << position;
    }
  }
  EXPECT_EQ(predictor.tokens_within(0, 0), 0);
  EXPECT_EQ(predictor.tokens_within(-5, 0), 0);
  EXPECT_GT(predictor.tokens_within(1e300, 0), 1 << 20);
}

// The machine's decodes take 3 times and its prompts 0.5 times as long as the table says.
TEST(StepTimePredictor, LearnsWhatStepsTakeHere) {
  StepTimePredictor predictor(kTable);
  int64_t now_us = 0;
  for (uint64_t step = 1; step <= 60; ++step) {
    StepTimeParts parts{.decode_us = predictor.decode_step_us(8, 4000)};
    if (step % 3 == 0) parts.prompt_us = predictor.prompt_us(300, 100);
    predictor.on_planned(step, now_us, parts);
    now_us += static_cast<int64_t>(3 * parts.decode_us + 0.5 * parts.prompt_us);
    predictor.on_done(step, now_us);
  }
  EXPECT_NEAR(predictor.decode_factor(), 3.0, 0.05);
  EXPECT_NEAR(predictor.prompt_factor(), 0.5, 0.05);
}

TEST(StepTimePredictor, OneStepThatHangsIsNotTakenAtItsWord) {
  StepTimePredictor predictor(kTable);
  const StepTimeParts parts{.decode_us = 1000};
  int64_t now_us = 0;
  for (uint64_t step = 1; step <= 20; ++step) {
    predictor.on_planned(step, now_us, parts);
    now_us += step == 20 ? 60'000'000 : 1000;
    predictor.on_done(step, now_us);
  }
  EXPECT_LT(predictor.decode_factor(), 1.5);
}

// Of steps planned ahead, the second begins when the first ends.
TEST(StepTimePredictor, AStepBeginsWhenTheOneBeforeItEnds) {
  StepTimePredictor predictor(kTable);
  const StepTimeParts parts{.decode_us = 1000};
  predictor.on_planned(1, 0, parts);
  predictor.on_planned(2, 10, parts);
  predictor.on_done(1, 1000);
  predictor.on_planned(3, 1000, parts);
  predictor.on_done(2, 2000);
  predictor.on_done(3, 3000);
  EXPECT_DOUBLE_EQ(predictor.decode_factor(), 1.0);
}

TEST(StepTimePredictor, AStepWithoutOutcomeIsForgotten) {
  StepTimePredictor predictor(kTable);
  const StepTimeParts parts{.decode_us = 1000};
  for (uint64_t step = 1; step <= 100; ++step) predictor.on_planned(step, 0, parts);
  predictor.on_done(1, 90'000'000);
  predictor.on_done(101, 91'000'000);
  EXPECT_DOUBLE_EQ(predictor.decode_factor(), 1.0);
}

}  // namespace
}  // namespace quire
