// Law L4 for stages: ids and logprobs are the same bits for every number of stages, with one or
// several ranks each, and for every number of steps under way.
#include "ranks/pipeline_executor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "exec/testing/l4_support.h"
#include "ranks/testing/rank_options.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::DriverOutput;
using test::PlanDriver;

class SameBitsInStages : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_equal(const std::string& dtype) {
    const ModelRunnerOptions options = test::rank_options(GetParam(), dtype);
    auto alone = ModelRunner::create(options);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
    PlanDriver driver(**alone, test::kRankBlocks);
    const DriverOutput want = driver.run({test::rank_request(1)}, {})[1];
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    const auto num_layers = static_cast<int>((*alone)->plan().whole.layers.size());
    for (const PipelineShape& shape :
         {PipelineShape{2, 1}, {std::min(3, num_layers), 1}, {num_layers, 1}, {2, 2}}) {
      if (num_layers == 1) continue;  // can have only one stage
      auto stages = PipelineExecutor::create(options, shape);
      if (!stages.ok() && shape.num_ranks > 1) continue;  // its heads cannot be divided so
      ASSERT_TRUE(stages.ok()) << stages.status().message();
      ASSERT_TRUE((*stages)->initialize(test::kRankPlan).ok());
      const Status warm = (*stages)->warm_up();
      ASSERT_TRUE(warm.ok()) << warm.message();
      const std::string what =
          fmt::format("{}, {} stages of {} ranks", dtype, shape.num_stages, shape.num_ranks);
      PlanDriver of_stages(**stages, test::kRankBlocks);
      test::expect_same_bits(of_stages.run({test::rank_request(1)}, {})[1], want, what + ", alone");
      auto crowd = of_stages.run(test::rank_crowd(100), test::kRankChunks);
      test::expect_same_bits(crowd[100], want, what + ", in a crowd");
    }
  }
};

TEST_P(SameBitsInStages, Float32) { expect_equal("float32"); }
TEST_P(SameBitsInStages, Bfloat16) { expect_equal("bfloat16"); }

// Models that have layers that use keys and values, or choices, of other layers, embeddings that
// only one stage has, or blocks that layers share.
const std::vector<std::string> kUncut = {"gemma3n",      "gemma3n_streams", "gemma4_shared",
                                         "glm_moe_dsa",  "zamba2",          "zamba2_one_block",
                                         "zamba2_untied"};

// All models that can be divided into stages.
std::vector<std::string> golden_names() {
  std::vector<std::string> names = test::model_golden_names();
  for (const std::string& whole : kUncut) std::erase(names, whole);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, SameBitsInStages, ::testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

TEST(PipelineExecutor, RefusesToPartWhatLayersShare) {
  for (const std::string& name : kUncut) {
    const auto refused =
        PipelineExecutor::create(test::rank_options(name, "float32"), {.num_stages = 2});
    EXPECT_EQ(refused.status().code(), StatusCode::kUnimplemented) << refused.status().message();
    EXPECT_NE(refused.status().message().find("--pipeline-parallel-size"), std::string::npos);
  }
}

TEST(PipelineExecutor, EachStageHoldsItsPart) {
  ModelRunnerOptions options = test::rank_options("llama", "float32");
  const auto alone = ModelRunner::create(options);
  auto stages = PipelineExecutor::create(options, {.num_stages = 2});
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  EXPECT_EQ((*stages)->kv_spec().block_bytes, (*alone)->kv_spec().block_bytes);
  const auto blocks = [](const Executor& of) {
    return of.available_kv_bytes() / of.kv_spec().block_bytes;
  };
  EXPECT_NEAR(static_cast<double>(blocks(**stages)), static_cast<double>(blocks(**alone)), 1);
  const MemoryPlan& sum = (*stages)->plan().memory;
  EXPECT_EQ(sum.matrices, (*alone)->plan().memory.matrices);
  EXPECT_EQ(sum.kv_bytes_per_token, (*alone)->plan().memory.kv_bytes_per_token);
  EXPECT_EQ((*stages)->plan().spec.num_parameters(), (*alone)->plan().spec.num_parameters());

  options.stage = {1, 2};
  const auto half = ModelRunner::plan_only(options);
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_LT(half->memory.weights, (*alone)->plan().memory.weights * 7 / 10);
  const int64_t num_layers = std::ssize((*alone)->plan().whole.layers);
  EXPECT_EQ(half->memory.block_bytes * num_layers,
            (*alone)->plan().memory.block_bytes *
                layers_of((*alone)->plan().whole, options.stage).size());
}

TEST(PipelineExecutor, RefusesWhatCannotBeShared) {
  const ModelRunnerOptions options = test::rank_options("llama", "float32");
  for (const int num_stages : {0, 40, 65}) {
    EXPECT_EQ(PipelineExecutor::create(options, {.num_stages = num_stages}).status().code(),
              StatusCode::kInvalidArgument)
        << num_stages;
  }
}

// An impossible plan fails as a whole, on every stage, and does not affect the next one.
TEST(PipelineExecutor, AFailedStepHarmsNoOther) {
  const ModelRunnerOptions options = test::rank_options("llama", "float32");
  auto stages = PipelineExecutor::create(options, {.num_stages = 2});
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  ASSERT_TRUE((*stages)->initialize(test::kRankPlan).ok());
  StepPlan bad;
  bad.step_id = 7;
  bad.scheduled.push_back({.id = RequestId(9), .num_scheduled_tokens = 1});
  bad.total_num_scheduled_tokens = 1;
  PlanDriver driver(**stages, test::kRankBlocks);
  const auto request = test::rank_request(1);
  const DriverOutput want = driver.run({request}, {})[1];
  EXPECT_FALSE((*stages)->execute(bad).ok());
  auto again = request;
  again.id = 2;
  test::expect_same_bits(driver.run({again}, {})[2], want, "after a failed step");
}

}  // namespace
}  // namespace quire
