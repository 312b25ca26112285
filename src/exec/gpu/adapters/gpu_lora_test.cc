// Adapters on a GPU: logits against peft, law L4, and what is refused. Linked twice, like
// gpu_runner_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "exec/testing/gpu_runner_test_support.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using gpu_test::GpuRunnerTest;
using gpu_test::load_runner;
using test::DriverOutput;
using test::DriverRequest;
using test::PlanDriver;

Result<std::shared_ptr<const Adapter>> load_adapter(const GpuRunner& runner,
                                                    const std::string& name) {
  return runner.load_adapter(name, test::lora_golden_dir(name).string());
}

class GpuLoraGolden : public GpuRunnerTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(GpuLoraGolden, LogitsAreThoseOfPeft) {
  const std::string& name = GetParam();
  const test::Golden golden = test::read_golden(test::lora_golden_dir(name));
  test::LogitsByPosition seen;
  const auto runner =
      load_runner(test::lora_golden_base(name),
                  {.gpu = {.graphs = GraphMode::kNone}, .max_adapters = 1, .seen = &seen});
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const auto adapter = load_adapter(**runner, name);
  if (adapter.status().code() == StatusCode::kUnimplemented) {
    EXPECT_NE(adapter.status().message().find("--device cpu"), std::string::npos)
        << adapter.status().message();
    GTEST_SKIP() << "SKIPPED: " << adapter.status().message();
  }
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  seen.clear();
  DriverRequest request = test::greedy_request(golden.prompt, 1);
  request.params.prompt_logprobs = 0;  // so that every row's logits are computed
  request.adapter = *adapter;
  PlanDriver driver(**runner, test::kGoldenBlocks);
  const auto outputs = driver.run({request}, {.chunk = 19});
  ASSERT_TRUE(outputs.at(1).status.ok()) << outputs.at(1).status.message();
  const double error = test::worst_error(golden, seen);
  EXPECT_LE(error, gpu_test::kBf16Budget);
  fmt::print("{}: worst logit error {:.2e}\n", name, error);
}

INSTANTIATE_TEST_SUITE_P(All, GpuLoraGolden, ::testing::ValuesIn(test::lora_golden_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// Runs requests of several adapters and of none in the same steps, with graphs, in chunks, after a
// preemption and after a prefix hit. Each gets the bits that it gets alone without graphs, and one
// without an adapter those of a runner without adapters.
TEST_F(GpuRunnerTest, BitsOfAdaptersDoNotDependOnTheCrowd) {
  const auto plain = load_runner("llama", {});
  const auto eager = load_runner("llama", {.gpu = {.graphs = GraphMode::kNone}, .max_adapters = 3});
  const auto graphs = load_runner("llama", {.max_adapters = 5});
  ASSERT_TRUE(plain.ok() && eager.ok() && graphs.ok()) << graphs.status().message();
  const std::vector<std::string> names = {"", "llama.plain", "llama.rslora", "llama.bias"};
  PlanDriver plain_driver(**plain, test::kGoldenBlocks);
  PlanDriver eager_driver(**eager, test::kGoldenBlocks);
  std::vector<DriverRequest> crowd;
  std::vector<DriverOutput> alone;
  // Makes the slots differ from those of the runner in the comparison.
  const auto unused = load_adapter(**graphs, "llama.plain");
  for (size_t i = 0; i < names.size(); ++i) {
    DriverRequest request = gpu_test::sampled_request(i + 1, 29);
    if (i > 0) request.adapter = *load_adapter(**eager, names[i]);
    alone.push_back(eager_driver.run({request}, {})[i + 1]);
    if (i > 0) request.adapter = *load_adapter(**graphs, names[i]);
    crowd.push_back(request);
  }
  gpu_test::expect_same(plain_driver.run({crowd[0]}, {})[1], alone[0]);
  for (size_t i = 1; i < names.size(); ++i) {
    DriverRequest without = crowd[i];
    without.adapter = nullptr;
    EXPECT_NE(plain_driver.run({without}, {})[i + 1].logprobs[0].logprob,
              alone[i].logprobs[0].logprob);
  }
  PlanDriver driver(**graphs, test::kGoldenBlocks);
  for (const test::DriverOptions& options :
       {test::DriverOptions{.chunk = 11, .step_tokens = 40},
        test::DriverOptions{.step_tokens = 64, .preempt_after_output = 4}}) {
    const auto outputs = driver.run(crowd, options);
    for (size_t i = 0; i < crowd.size(); ++i) {
      SCOPED_TRACE(names[i]);
      gpu_test::expect_same(outputs.at(i + 1), alone[i]);
    }
  }
  DriverRequest again = crowd[1];
  again.id = 99;
  gpu_test::expect_same(driver.run_after_hit(again, crowd[1].id, 1, {}), alone[1]);
  EXPECT_GT((*graphs)->graph_stats().num_graph_steps(), 20);
}

// Quantized base models, adapters that change the router and attention beside experts, and states.
TEST_F(GpuRunnerTest, BitsOfAdaptersOfOtherModels) {
  for (const char* name : {"gemma2.plain", "phi3.bias"}) {
    SCOPED_TRACE(name);
    const auto eager = load_runner(test::lora_golden_base(name),
                                   {.gpu = {.graphs = GraphMode::kNone}, .max_adapters = 1});
    const auto graphs = load_runner(test::lora_golden_base(name), {.max_adapters = 1});
    ASSERT_TRUE(eager.ok() && graphs.ok());
    DriverRequest with = gpu_test::sampled_request(1, 23),
                  without = gpu_test::sampled_request(2, 9);
    PlanDriver eager_driver(**eager, test::kGoldenBlocks);
    with.adapter = *load_adapter(**eager, name);
    const auto alone = eager_driver.run({with}, {});
    const auto alone_without = eager_driver.run({without}, {});
    with.adapter = *load_adapter(**graphs, name);
    PlanDriver driver(**graphs, test::kGoldenBlocks);
    const auto both = driver.run({with, without}, {.chunk = 10, .step_tokens = 30});
    gpu_test::expect_same(both.at(1), alone.at(1));
    gpu_test::expect_same(both.at(2), alone_without.at(2));
  }
}

// An adapter that is unloaded while a request uses it stays until the request ends; then its slot
// is used for the next one.
TEST_F(GpuRunnerTest, SlotsOfAdaptersComeBack) {
  const auto runner = load_runner("llama", {.max_adapters = 2});
  ASSERT_TRUE(runner.ok());
  PlanDriver driver(**runner, test::kGoldenBlocks);
  const auto run = [&](const std::string& name) {
    DriverRequest request = gpu_test::sampled_request(1, 17);
    const auto adapter = load_adapter(**runner, name);
    EXPECT_TRUE(adapter.ok()) << adapter.status().message();
    if (adapter.ok()) request.adapter = *adapter;
    return driver.run({request}, {})[1];
  };
  const DriverOutput plain = run("llama.plain");
  const DriverOutput rslora = run("llama.rslora");
  EXPECT_NE(plain.logprobs[0].logprob, rslora.logprobs[0].logprob);
  for (int i = 0; i < 3; ++i) {
    gpu_test::expect_same(run("llama.plain"), plain);
    gpu_test::expect_same(run("llama.rslora"), rslora);
  }
  const auto first = load_adapter(**runner, "llama.plain");
  const auto second = load_adapter(**runner, "llama.plain");
  // The adapter of the last request is kept until the next step.
  EXPECT_TRUE(first.ok());
  EXPECT_EQ(load_adapter(**runner, "llama.plain").status().code(), StatusCode::kResourceExhausted);
}

TEST_F(GpuRunnerTest, PlansMemoryForAdapters) {
  const auto plain = load_runner("llama", {});
  const auto runner = load_runner("llama", {.max_adapters = 2, .max_lora_rank = 8});
  const auto larger = load_runner("llama", {.max_adapters = 2, .max_lora_rank = 32});
  ASSERT_TRUE(plain.ok() && runner.ok() && larger.ok());
  EXPECT_EQ((*plain)->model().plan().memory.adapters, 0);
  EXPECT_GT((*runner)->model().plan().memory.adapters, 0);
  EXPECT_GT((*larger)->model().plan().memory.adapters, (*runner)->model().plan().memory.adapters);
  EXPECT_EQ((*runner)->model().plan().memory.graphs, 2 * (*plain)->model().plan().memory.graphs);
  EXPECT_EQ((*plain)->load_adapter("a", "/nowhere").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ((*runner)->load_adapter("a", "/nowhere").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quire
