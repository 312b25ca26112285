// Law L4 for adapters on ranks: in a batch of requests with and without an adapter, ids and
// logprobs are the same bits for every number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "exec/testing/l4_support.h"
#include "ranks/pipeline_executor.h"
#include "ranks/ranked_executor.h"
#include "ranks/testing/rank_options.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

ModelRunnerOptions adapter_options(const std::string& model_file, const std::string& dtype) {
  ModelRunnerOptions options = test::rank_options_of(model_file, dtype);
  options.max_adapters = 2;
  return options;
}

test::DriverRequest request_with(uint64_t id, std::shared_ptr<const Adapter> adapter) {
  test::DriverRequest request = test::rank_request(id);
  request.adapter = std::move(adapter);
  return request;
}

// Runs a batch of which every second request has the adapter, and returns the output of each
// request.
std::vector<test::DriverOutput> run_batch(Executor& executor, const std::string& name) {
  auto adapter = executor.load_adapter(name, test::lora_golden_dir(name).string());
  QUIRE_CHECK(adapter.ok(), "{}", adapter.status().message());
  test::PlanDriver driver(executor, test::kRankBlocks);
  std::vector<test::DriverRequest> batch;
  for (uint64_t i = 0; i < 4; ++i) batch.push_back(request_with(i, i % 2 ? *adapter : nullptr));
  const auto outputs = driver.run(batch, {.chunk = 23, .step_tokens = 60});
  std::vector<test::DriverOutput> in_order;
  for (const auto& [id, output] : outputs) in_order.push_back(output);
  return in_order;
}

class AdaptersOnRanks : public ::testing::TestWithParam<std::string> {
 protected:
  static void expect_equal(const std::string& model_file, const std::string& dtype) {
    const ModelRunnerOptions options = adapter_options(model_file, dtype);
    auto alone = ModelRunner::create(options);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
    const auto want = run_batch(**alone, GetParam());
    EXPECT_NE(want[0].logprobs[0].logprob, want[1].logprobs[0].logprob);
    int num_shared = 0;
    for (const int num_ranks : {2, 4}) {
      auto ranks = RankedExecutor::create(options, num_ranks);
      if (!ranks.ok()) continue;  // its heads cannot be divided so
      ++num_shared;
      ASSERT_TRUE((*ranks)->initialize(test::kRankPlan).ok());
      const auto got = run_batch(**ranks, GetParam());
      for (size_t i = 0; i < want.size(); ++i) {
        test::expect_same_bits(got[i], want[i],
                               fmt::format("{}, {} ranks, request {}", dtype, num_ranks, i));
      }
    }
    EXPECT_GE(num_shared, 1) << "no number of ranks can share the model";
    auto stages = PipelineExecutor::create(options, {.num_stages = 2});
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    ASSERT_TRUE((*stages)->initialize(test::kRankPlan).ok());
    const auto got = run_batch(**stages, GetParam());
    for (size_t i = 0; i < want.size(); ++i)
      test::expect_same_bits(got[i], want[i], fmt::format("{}, 2 stages, request {}", dtype, i));
  }
};

TEST_P(AdaptersOnRanks, SameBits) {
  const auto dir = test::golden_dir(GetParam().substr(0, GetParam().find('.')));
  expect_equal(test::golden_model(dir), "float32");
  expect_equal(test::golden_model(dir), "bfloat16");
  const auto gguf = dir / "model.gguf";
  if (std::filesystem::exists(gguf)) expect_equal(gguf.string(), "auto");
}

INSTANTIATE_TEST_SUITE_P(All, AdaptersOnRanks, ::testing::ValuesIn(test::lora_golden_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// Ranks have whole experts: each has the updates of its own experts, and their outputs are combined
// in either way.
TEST(AdaptersOnRanks, SameBitsWithExpertsSpread) {
  for (const std::string name :
       {"gpt_oss.gpt_oss_experts", "granitemoe.granite_experts", "mixtral.down", "mixtral.experts",
        "olmoe.each", "qwen2_moe.down", "qwen3_moe.experts"}) {
    SCOPED_TRACE(name);
    const auto dir = test::golden_dir(name.substr(0, name.find('.')));
    ModelRunnerOptions options = adapter_options(test::golden_model(dir), "bfloat16");
    auto alone = ModelRunner::create(options);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    ASSERT_TRUE((*alone)->initialize(test::kRankPlan).ok());
    const auto want = run_batch(**alone, name);
    EXPECT_NE(want[0].logprobs[0].logprob, want[1].logprobs[0].logprob);
    options.share.whole_experts = true;
    for (const ExpertCombine combine : {ExpertCombine::kAllGather, ExpertCombine::kAllToAll}) {
      options.share.combine = combine;
      auto ranks = RankedExecutor::create(options, 2);
      ASSERT_TRUE(ranks.ok()) << ranks.status().message();
      ASSERT_TRUE((*ranks)->initialize(test::kRankPlan).ok());
      const auto got = run_batch(**ranks, name);
      for (size_t i = 0; i < want.size(); ++i)
        test::expect_same_bits(got[i], want[i], fmt::format("{}, request {}", name, i));
    }
  }
}

// The stage that has a layer refuses an adapter for what the model does not have in it.
TEST(AdaptersOnRanks, StagesRefuseWhatTheModelDoesNotHave) {
  const ModelRunnerOptions options =
      adapter_options(test::golden_model(test::golden_dir("qwen2")), "float32");
  auto alone = ModelRunner::create(options);
  auto stages = PipelineExecutor::create(options, {.num_stages = 2});
  ASSERT_TRUE(alone.ok() && stages.ok());
  for (const std::string& name : test::lora_golden_names()) {
    const std::string path = test::lora_golden_dir(name).string();
    EXPECT_EQ((*stages)->load_adapter("a", path).ok(), (*alone)->load_adapter("a", path).ok())
        << name;
  }
}

TEST(AdaptersOnRanks, SlotsAreThoseOfOneModelAndEnginesShareThem) {
  const ModelRunnerOptions options =
      adapter_options(test::golden_model(test::golden_dir("llama")), "float32");
  auto ranks = RankedExecutor::create(options, 2);
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  const std::string path = test::lora_golden_dir("llama.plain").string();
  const auto first = (*ranks)->load_adapter("a", path);
  const auto second = (*ranks)->load_adapter("b", path);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*ranks)->load_adapter("c", path).status().code(), StatusCode::kResourceExhausted);
  const auto alone = ModelRunner::plan_only(options);
  ASSERT_TRUE(alone.ok());
  // Each rank has all of A and a share of B.
  EXPECT_GT((*ranks)->plan().memory.adapters, alone->memory.adapters);
  EXPECT_LT((*ranks)->plan().memory.adapters, 2 * alone->memory.adapters);
}

}  // namespace
}  // namespace quire
