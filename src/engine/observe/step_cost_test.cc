#include "engine/observe/step_cost.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <tuple>

#include "engine/observe/step_files.h"
#include "engine/testing/engine_test_support.h"
#include "roofline/testing/test_models.h"
#include "tests/support/temp_folder.h"

namespace quire {
namespace {

std::shared_ptr<const CostModel> gemma_cost() {
  return std::make_shared<const CostModel>(CostModel::create(test::model_of(test::kGemma2_9B),
                                                             find_hardware("cpu-avx512").value(),
                                                             {}, {.max_memoised_tokens = 128})
                                               .value());
}

StepPlan mixed_plan() {
  StepPlan plan;
  plan.step_id = 4;
  plan.scheduled = {{RequestId(1), 5000, 1}, {RequestId(2), 0, 64}};
  plan.total_num_scheduled_tokens = 65;
  return plan;
}

StepResult first_sampled() {
  StepResult result;
  result.requests.resize(2);
  result.requests[0].sampled_token_ids = {7};
  return result;
}

TEST(StepCosts, FillsShapeAndCost) {
  const auto model = gemma_cost();
  StepCosts costs(model, {});
  StepRecord record{.step_id = 4, .execute_us = 1'000'000};
  const StepResult result = first_sampled();
  costs.fill(mixed_plan(), &result, record);
  EXPECT_EQ(record.num_requests, 2);
  EXPECT_EQ(record.num_decodes, 1);
  EXPECT_EQ(record.num_sampled, 1);
  EXPECT_EQ(record.decode_context, 5001);
  StepShape shape;
  shape.add(5000, 1, true, model->windows());
  shape.add(0, 64, false, model->windows());
  EXPECT_DOUBLE_EQ(record.cost.bound_us, model->bound_us(shape));
  EXPECT_DOUBLE_EQ(record.cost.total_us, model->predict_us(shape));
  EXPECT_DOUBLE_EQ(record.bound_share(), record.cost.bound_us / 1e6);
}

// The scheduler's table agrees with the cost model, except for what is not linear about a step.
TEST(StepTimeTable, AgreesWithTheCostModel) {
  const auto model = gemma_cost();
  const StepTimePredictor table(step_time_table(*model));
  for (const auto& [num_decodes, context, num_prompt] :
       {std::tuple(1, 100, 0), std::tuple(8, 500, 256), std::tuple(16, 2000, 1024),
        std::tuple(1, 4000, 2048)}) {
    StepShape shape;
    for (int32_t i = 0; i < num_decodes; ++i) shape.add(context - 1, 1, true, model->windows());
    if (num_prompt > 0) shape.add(0, num_prompt, false, model->windows());
    const double predicted = table.decode_step_us(num_decodes, int64_t{num_decodes} * context) +
                             table.prompt_us(num_prompt, 0);
    EXPECT_NEAR(predicted / model->predict_us(shape), 1.0, 0.15) << num_decodes << num_prompt;
  }
}

TEST(StepCosts, WithoutAModelShapesAreStillRecorded) {
  StepCosts costs(nullptr, {});
  StepRecord record;
  costs.fill(mixed_plan(), nullptr, record);
  EXPECT_EQ(record.num_tokens, 65);
  EXPECT_EQ(record.num_sampled, 0);
  EXPECT_EQ(record.cost.bound_us, 0);
  EXPECT_EQ(record.bound_share(), 0);
}

TEST(StepFiles, LogReadsBackAndTraceIsTraceEvents) {
  const test::TempFolder dir;
  const auto model = gemma_cost();
  {
    const StepObserver log =
        open_step_log(dir / "steps.jsonl", {.model = model->model(), .hardware = "x"}).value();
    const StepObserver trace = open_chrome_trace(dir / "trace.json").value();
    StepCosts costs(model, {log, trace});
    const StepResult result = first_sampled();
    StepRecord record{
        .step_id = 4, .begin_us = 10, .schedule_us = 1, .execute_us = 20, .update_us = 2};
    costs.fill(mixed_plan(), &result, record);
  }
  const auto read = [&](const char* name) {
    std::ifstream file(dir / name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const StepLog log = parse_step_log(read("steps.jsonl"), "steps.jsonl").value();
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].total_us(), 23);
  EXPECT_EQ(log.steps[0].shape.decode.windowed[0], 4096);
  const std::string trace = read("trace.json");
  EXPECT_EQ(trace.rfind("[\n{", 0), 0u);
  EXPECT_NE(trace.find("\"name\": \"execute\", \"ph\": \"X\", \"pid\": 1, \"tid\": 2, \"ts\": 11, "
                       "\"dur\": 20"),
            std::string::npos);
  EXPECT_TRUE(trace.ends_with("}\n]\n"));
  EXPECT_EQ(trace.find("},\n]"), std::string::npos);
}

TEST(StepFiles, AFileThatCannotBeWritten) {
  EXPECT_NE(open_chrome_trace("/nonexistent/trace.json").status().message().find("can be written"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
