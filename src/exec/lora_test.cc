// Adapters through ModelRunner: logits against peft (tools/make_lora_goldens.py), and law L4 with
// rows of several adapters in one batch.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "exec/model_runner.h"
#include "exec/testing/golden_support.h"
#include "exec/testing/l4_support.h"
#include "exec/testing/test_driver.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::DriverOutput;
using test::DriverRequest;
using test::expect_same_bits;
using test::PlanDriver;

constexpr double kLogitBudget = 2e-4;  // of the row's norm
constexpr int32_t kNumBlocks = 2048;

std::filesystem::path adapters_dir() { return test::source_dir() / "tests" / "goldens" / "lora"; }

std::vector<std::string> adapter_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(adapters_dir()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
// "phi3.rslora" is an adapter of the golden model phi3.
std::string base_of(const std::string& name) { return name.substr(0, name.find('.')); }

struct Setup {
  int32_t max_adapters = 8;
  int threads = 1;
  int32_t num_replicas = 1;
  bool gguf = false;
  const char* dtype = "float32";
  test::LogitsByPosition* seen = nullptr;
};

std::unique_ptr<ModelRunner> load(const std::string& model, const Setup& setup) {
  const auto dir = test::golden_dir(model);
  auto files =
      ModelFiles::open(setup.gguf ? (dir / "model.gguf").string() : test::golden_model(dir));
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.dtype = setup.dtype;
  options.kv_cache_memory_bytes = int64_t{256} << 20;
  options.threads = setup.threads;
  options.num_replicas = setup.num_replicas;
  options.max_num_batched_tokens = 1024;
  options.max_num_seqs = 64;
  options.max_adapters = setup.max_adapters;
  if (setup.seen != nullptr) {
    options.on_logits = [seen = setup.seen](RequestId, int32_t at, std::span<const float> row) {
      (*seen)[at].assign(row.begin(), row.end());
    };
  }
  auto runner = ModelRunner::create(options);
  QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
  QUIRE_CHECK(
      (*runner)->initialize({.num_blocks = kNumBlocks, .num_state_blocks = kNumBlocks}).ok());
  return std::move(*runner);
}

std::shared_ptr<const Adapter> load_adapter(const ModelRunner& runner, const std::string& name) {
  auto adapter = runner.load_adapter(name, (adapters_dir() / name).string());
  QUIRE_CHECK(adapter.ok(), "{}", adapter.status().message());
  return *adapter;
}

void expect_parity(const std::string& name, bool gguf) {
  const test::Golden golden = test::read_golden(adapters_dir() / name);
  test::LogitsByPosition seen;
  const auto runner = load(base_of(name), {.gguf = gguf, .seen = &seen});
  DriverRequest request = test::greedy_request(golden.prompt, 1);
  request.params.prompt_logprobs = 0;  // so that every row's logits are computed
  request.adapter = load_adapter(*runner, name);
  PlanDriver driver(*runner, kNumBlocks);
  const auto outputs = driver.run({request}, {.chunk = 19});
  ASSERT_TRUE(outputs.at(1).status.ok()) << outputs.at(1).status.message();
  const double error = test::worst_error(golden, seen);
  EXPECT_LE(error, kLogitBudget);
  fmt::print("{}: worst logit error {:.2e}\n", name, error);
}

class LoraGolden : public testing::TestWithParam<std::string> {};

TEST_P(LoraGolden, LogitsAreThoseOfPeft) {
  expect_parity(GetParam(), false);
  if (std::filesystem::exists(test::golden_dir(base_of(GetParam())) / "model.gguf"))
    expect_parity(GetParam(), true);
}

INSTANTIATE_TEST_SUITE_P(All, LoraGolden, testing::ValuesIn(adapter_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

DriverRequest request_with(uint64_t id, std::shared_ptr<const Adapter> adapter) {
  DriverRequest request = test::make_request(id, 5, test::kPromptTokens);
  request.adapter = std::move(adapter);
  return request;
}

class LoraBits : public testing::TestWithParam<const char*> {};

// One batch of three adapters and none: each is what it is alone, and what has no adapter is what a
// runner without adapters makes of it.
TEST_P(LoraBits, CrowdIsAsAlone) {
  const auto plain = load("llama", {.max_adapters = 0, .dtype = GetParam()});
  const auto runner = load("llama", {.threads = 2, .dtype = GetParam()});
  std::vector<std::shared_ptr<const Adapter>> adapters = {nullptr};
  for (const char* name : {"llama.plain", "llama.rslora", "llama.bias", "llama.dora"})
    adapters.push_back(load_adapter(*runner, name));
  std::vector<DriverOutput> want;
  for (const auto& adapter : adapters) {
    PlanDriver driver(*runner, kNumBlocks);
    want.push_back(driver.run({request_with(1, adapter)}, {})[1]);
  }
  PlanDriver plain_driver(*plain, kNumBlocks);
  expect_same_bits(want[0], plain_driver.run({request_with(1, nullptr)}, {})[1], "no adapters");
  for (size_t i = 1; i < want.size(); ++i)
    EXPECT_NE(want[i].logprobs[0].logprob, want[0].logprobs[0].logprob) << "adapter " << i;
  for (const int32_t chunk : {1, 7, 512}) {
    PlanDriver driver(*runner, kNumBlocks);
    std::vector<DriverRequest> crowd;
    for (uint64_t i = 0; i < 12; ++i)
      crowd.push_back(request_with(100 + i, adapters[i % adapters.size()]));
    const auto outputs =
        driver.run(crowd, {.chunk = chunk, .step_tokens = 300, .preempt_after_output = 5});
    for (uint64_t i = 0; i < crowd.size(); ++i) {
      expect_same_bits(outputs.at(100 + i), want[i % want.size()],
                       fmt::format("request {}, chunk {}", i, chunk));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LoraBits, testing::Values("float32", "bfloat16"));

TEST(LoraErrors, SlotsAreBoundedAndComeBack) {
  const auto runner = load("llama", {.max_adapters = 2});
  const std::string path = (adapters_dir() / "llama.plain").string();
  auto first = runner->load_adapter("a", path);
  auto second = runner->load_adapter("b", path);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->content_key, (*second)->content_key);
  EXPECT_EQ(runner->load_adapter("c", path).status().code(), StatusCode::kResourceExhausted);
  first = Status(StatusCode::kCancelled, "gone");
  EXPECT_TRUE(runner->load_adapter("c", path).ok());
}

TEST(LoraErrors, AdaptersThatDoNotFit) {
  const std::string llama = (adapters_dir() / "llama.plain").string();
  EXPECT_EQ(load("llama", {.max_adapters = 0})->load_adapter("a", llama).status().code(),
            StatusCode::kUnimplemented);
  const auto other = load("gpt2", {});
  const Status status = other->load_adapter("a", llama).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("no such linear"), std::string::npos) << status.message();
  EXPECT_EQ(other->load_adapter("a", "/nowhere").status().code(), StatusCode::kNotFound);
}

// A layer's update of a block would be all layers'.
TEST(LoraErrors, SharedBlocksTakeNone) {
  auto files = ModelFiles::open(test::golden_model(test::golden_dir("zamba2")));
  ASSERT_TRUE(files.ok()) << files.status().message();
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.kv_cache_memory_bytes = int64_t{256} << 20;
  options.max_adapters = 1;
  const Status status = ModelRunner::create(options).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("--enable-lora"), std::string::npos) << status.message();
}

// Engines of one process: the weights and what one runner has loaded serve both, at the same time,
// and there is room for as many adapters as one runner has.
TEST(LoraReplicas, GiveTheBitsOfOneRunner) {
  const auto alone = load("llama", {});
  PlanDriver alone_driver(*alone, kNumBlocks);
  const DriverOutput want =
      alone_driver.run({request_with(1, load_adapter(*alone, "llama.rslora"))}, {})[1];
  const auto first = load("llama", {.max_adapters = 2, .num_replicas = 2});
  auto beside = ModelRunner::create_beside(*first);
  ASSERT_TRUE(beside.ok()) << beside.status().message();
  ASSERT_TRUE((*beside)->initialize({.num_blocks = kNumBlocks}).ok());
  EXPECT_EQ((*beside)->plan().memory.total(), first->plan().memory.total());
  EXPECT_EQ(first->plan().memory.kv_cache * 2, alone->plan().memory.kv_cache);
  const auto adapter = load_adapter(*first, "llama.rslora");
  const auto run = [&](ModelRunner& runner, std::vector<DriverOutput>& got) {
    PlanDriver driver(runner, kNumBlocks);
    std::vector<DriverRequest> crowd;
    for (uint64_t i = 1; i <= 6; ++i)
      crowd.push_back(request_with(i, i % 2 == 1 ? adapter : nullptr));
    const auto outputs = driver.run(crowd, {.chunk = 7, .step_tokens = 300});
    for (uint64_t i = 1; i <= 6; i += 2) got.push_back(outputs.at(i));
  };
  std::vector<DriverOutput> of_first, of_beside;
  std::thread other([&] { run(**beside, of_beside); });
  run(*first, of_first);
  other.join();
  for (const DriverOutput& got : of_first) expect_same_bits(got, want, "the first");
  for (const DriverOutput& got : of_beside) expect_same_bits(got, want, "beside it");
  const auto second = load_adapter(**beside, "llama.plain");
  EXPECT_EQ(first->load_adapter("x", (adapters_dir() / "llama.bias").string()).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire
