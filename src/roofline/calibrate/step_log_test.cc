#include "roofline/calibrate/step_log.h"

#include <gtest/gtest.h>

#include "roofline/testing/test_models.h"

namespace quire {
namespace {

std::string sample_log() {
  const CostModel cost =
      CostModel::create(test::model_of(test::kGemma2_9B), find_hardware("h100-sxm").value(), {},
                        {.max_memoised_tokens = 4})
          .value();
  std::string text =
      format_header({.model = cost.model(), .parallelism = {}, .hardware = "h100-sxm"});
  MeasuredStep step{.step_id = 7, .begin_us = 1000, .schedule_us = 3, .execute_us = 900};
  step.shape.add(5000, 1, true, cost.windows());
  step.shape.add(0, 64, false, cost.windows());
  append_step(text, step, cost.predict(step.shape));
  return text;
}

TEST(StepLog, RoundTrip) {
  const StepLog log = parse_step_log(sample_log(), "steps.jsonl").value();
  EXPECT_EQ(log.header.model.num_parameters(), test::model_of(test::kGemma2_9B).num_parameters());
  EXPECT_EQ(log.header.hardware, "h100-sxm");
  ASSERT_EQ(log.steps.size(), 1u);
  const MeasuredStep& step = log.steps[0];
  EXPECT_EQ(step.step_id, 7u);
  EXPECT_EQ(step.shape.num_tokens, 65);
  EXPECT_EQ(step.shape.num_sampled, 1);
  EXPECT_EQ(step.shape.decode.context, 5001);
  EXPECT_EQ(step.shape.decode.windowed[0], 4096);
  ASSERT_EQ(step.shape.chunks.size(), 1u);
  EXPECT_EQ(step.total_us(), 903);
}

TEST(StepLog, ALineCutShortIsLeftOut) {
  const std::string text = sample_log();
  EXPECT_EQ(parse_step_log(text + text.substr(text.find('\n') + 1, 40), "x").value().steps.size(),
            1u);
}

TEST(StepLog, RefusalsNameFileAndLine) {
  const std::string text = sample_log();
  const auto message = [](const std::string& log) {
    return parse_step_log(log, "steps.jsonl").status().message();
  };
  EXPECT_NE(message("").find("steps.jsonl:1"), std::string::npos);
  EXPECT_NE(message("{}\n").find("expected a step log of version 1"), std::string::npos);
  EXPECT_NE(message(text + "{\"step\": 1}\n").find("steps.jsonl:3: tokens"), std::string::npos);
  EXPECT_NE(message(text + R"({"tokens": 3, "requests": 1, "decodes": 1, "execute_us": 5})"
                           "\n")
                .find("steps.jsonl:3: expected decodes and chunks"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
