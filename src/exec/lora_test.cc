// Adapters through ModelRunner: logits against peft (tools/make_lora_goldens.py), and law L4 with
// rows of several adapters in one batch.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "exec/model_runner.h"
#include "exec/testing/golden_support.h"
#include "exec/testing/l4_support.h"
#include "exec/testing/test_driver.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"
#include "weights/tensors/element.h"
#include "weights/testing/lora_test_support.h"

namespace quire {
namespace {

using test::DriverOutput;
using test::DriverRequest;
using test::expect_same_bits;
using test::PlanDriver;

constexpr double kLogitBudget = 2e-4;  // of the row's norm
constexpr int32_t kNumBlocks = 2048;

struct Setup {
  int32_t max_adapters = 8;
  int threads = 1;
  int32_t num_replicas = 1;
  bool gguf = false;
  const char* dtype = "float32";
  int64_t lora_memory_bytes = 0;
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
  options.lora_memory_bytes = setup.lora_memory_bytes;
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
  auto adapter = runner.load_adapter(name, test::lora_golden_dir(name).string());
  QUIRE_CHECK(adapter.ok(), "{}", adapter.status().message());
  return *adapter;
}

void expect_parity(const std::string& name, bool gguf) {
  const test::Golden golden = test::read_golden(test::lora_golden_dir(name));
  test::LogitsByPosition seen;
  const auto runner = load(test::lora_golden_base(name), {.gguf = gguf, .seen = &seen});
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
  if (std::filesystem::exists(test::golden_dir(test::lora_golden_base(GetParam())) / "model.gguf"))
    expect_parity(GetParam(), true);
}

INSTANTIATE_TEST_SUITE_P(All, LoraGolden, testing::ValuesIn(test::lora_golden_names()),
                         [](const auto& info) {
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

// One batch of several adapters and none: each request gets what it gets alone, and one without an
// adapter what a runner without adapters computes.
void expect_crowd_as_alone(const std::string& model, const std::vector<std::string>& names,
                           const char* dtype) {
  const auto plain = load(model, {.max_adapters = 0, .dtype = dtype});
  const auto runner = load(model, {.threads = 2, .dtype = dtype});
  std::vector<std::shared_ptr<const Adapter>> adapters = {nullptr};
  for (const std::string& name : names)
    adapters.push_back(load_adapter(*runner, model + "." + name));
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

TEST_P(LoraBits, CrowdIsAsAlone) {
  expect_crowd_as_alone("llama", {"plain", "rslora", "bias", "dora"}, GetParam());
}

TEST_P(LoraBits, CrowdWithHeadsEmbeddingsAndNormsIsAsAlone) {
  expect_crowd_as_alone("llama", {"whole", "ends", "plain"}, GetParam());
}

TEST_P(LoraBits, CrowdWithExpertsIsAsAlone) {
  expect_crowd_as_alone("mixtral", {"experts", "down"}, GetParam());
}

// Tokens that are chosen without computing logits are those that the logits say.
TEST_P(LoraBits, GreatestOfAChangedHead) {
  const auto runner = load("llama", {.dtype = GetParam()});
  for (const char* name : {"llama.ends", "llama.whole"}) {
    std::vector<TokenId> said;
    for (const bool has_logprobs : {true, false}) {
      DriverRequest request = request_with(1, load_adapter(*runner, name));
      request.params.temperature = 0.0f;
      request.params.logprobs = has_logprobs ? std::optional<int32_t>(1) : std::nullopt;
      PlanDriver driver(*runner, kNumBlocks);
      const DriverOutput output = driver.run({request}, {})[1];
      if (has_logprobs) said = output.token_ids;
      EXPECT_EQ(output.token_ids, said) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LoraBits, testing::Values("float32", "bfloat16"));

TEST(LoraErrors, SlotsAreBoundedAndComeBack) {
  const auto runner = load("llama", {.max_adapters = 2});
  const std::string path = test::lora_golden_dir("llama.plain").string();
  auto first = runner->load_adapter("a", path);
  auto second = runner->load_adapter("b", path);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->content_key, (*second)->content_key);
  EXPECT_EQ(runner->load_adapter("c", path).status().code(), StatusCode::kResourceExhausted);
  first = Status(StatusCode::kCancelled, "gone");
  EXPECT_TRUE(runner->load_adapter("c", path).ok());
}

TEST(LoraErrors, AdaptersThatDoNotFit) {
  const std::string llama = test::lora_golden_dir("llama.plain").string();
  EXPECT_EQ(load("llama", {.max_adapters = 0})->load_adapter("a", llama).status().code(),
            StatusCode::kUnimplemented);
  const auto other = load("gpt2", {});
  const Status status = other->load_adapter("a", llama).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("no such linear"), std::string::npos) << status.message();
  EXPECT_EQ(other->load_adapter("a", "/nowhere").status().code(), StatusCode::kNotFound);
}

std::vector<float> floats_of(const RawTensor& tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    values.push_back(read_element(tensor.data.data(), *tensor.dtype, i));
  return values;
}

// Saves the adapter as PEFT did when it took the second dimension of a parameter for its inputs:
// the update of each expert is then the transpose of B A.
void save_swapped(const LoraFiles& files, const std::filesystem::path& folder) {
  std::vector<test::AdapterTensor> tensors;
  for (const LoraModule& module : files.modules()) {
    std::vector<float> a = floats_of(*module.a), b = floats_of(*module.b);
    std::vector<int64_t> a_shape = module.a->shape, b_shape = module.b->shape;
    if (module.num_experts > 1) {
      // The rank of the parameter, which the module alone does not tell.
      const int64_t experts = 4, rank = a_shape[0] / experts;
      const int64_t inputs = module.num_inputs(), outputs = module.num_outputs();
      std::vector<float> old_a(b.size()), old_b(a.size());
      for (int64_t e = 0; e < experts; ++e) {
        for (int64_t r = 0; r < rank; ++r) {
          for (int64_t o = 0; o < outputs; ++o)
            old_a[static_cast<size_t>((e * rank + r) * outputs + o)] =
                b[static_cast<size_t>((o * rank + r) * experts + e)];
          for (int64_t i = 0; i < inputs; ++i)
            old_b[static_cast<size_t>((i * rank + r) * experts + e)] =
                a[static_cast<size_t>((e * rank + r) * inputs + i)];
        }
      }
      a_shape = {experts * rank, outputs};
      b_shape = {inputs, rank * experts};
      a = std::move(old_a);
      b = std::move(old_b);
    }
    tensors.push_back({module.a->name, a_shape, a});
    tensors.push_back({module.b->name, b_shape, b});
  }
  std::ofstream(folder / "adapter_model.safetensors", std::ios::binary)
      << test::safetensors_of(tensors);
}

TEST(LoraExperts, OlderFilesAreReadToo) {
  const auto runner = load("mixtral", {});
  const std::filesystem::path path = test::lora_golden_dir("mixtral.experts");
  const auto files = LoraFiles::open(path.string());
  ASSERT_TRUE(files.ok()) << files.status().message();
  const test::TempFolder folder;
  std::filesystem::copy(path / "adapter_config.json", folder / "adapter_config.json");
  save_swapped(*files, folder.path());
  const auto older = runner->load_adapter("older", folder.string());
  ASSERT_TRUE(older.ok()) << older.status().message();
  const auto run = [&](std::shared_ptr<const Adapter> adapter) {
    PlanDriver driver(*runner, kNumBlocks);
    return driver.run({request_with(1, std::move(adapter))}, {})[1];
  };
  expect_same_bits(run(*older), run(load_adapter(*runner, "mixtral.experts")), "older files");
}

// Modules that are replaced as a whole take the same memory as the other updates.
TEST(LoraErrors, MemoryIsBoundedAndComesBack) {
  const std::string path = test::lora_golden_dir("llama.whole").string();
  const auto runner = load("llama", {.lora_memory_bytes = 80 << 10});
  auto first = runner->load_adapter("a", path);
  ASSERT_TRUE(first.ok()) << first.status().message();
  const Status full = runner->load_adapter("b", path).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("--lora-memory"), std::string::npos) << full.message();
  first = Status(StatusCode::kCancelled, "gone");
  EXPECT_TRUE(runner->load_adapter("b", path).ok());
}

// A block that layers share cannot have an update for one of these layers alone.
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

// Two runners of one process use the same weights and the same loaded adapters at the same time,
// and together have room for as many adapters as one runner.
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
  EXPECT_EQ(first->load_adapter("x", test::lora_golden_dir("llama.bias").string()).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire
