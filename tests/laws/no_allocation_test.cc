// A steady decode step allocates no memory (law L3, INV-21) in the scheduler, the KV manager, the
// runner and its kernels; the engine allocates only what it passes to readers. The test counts
// every operator new of this program, on all threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "exec/model_runner.h"
#include "tests/support/test_data.h"
#include "tokenizer/json/tokenizer_json.h"

namespace {
std::atomic<int64_t> num_allocations{0};

void* counted(void* memory) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  return counted(std::malloc(size == 0 ? 1 : size));
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t align) {
  const auto alignment = static_cast<size_t>(align);
  return counted(std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace quire {
namespace {

constexpr int32_t kNumRequests = 8;
constexpr int32_t kNumTokens = 200;

std::filesystem::path model_dir() { return test::source_dir() / "assets" / "builtin_model"; }

std::unique_ptr<ModelRunner> make_runner() {
  auto files = ModelFiles::open(model_dir().string());
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.max_model_len = 512;
  options.kv_cache_memory_bytes = int64_t{64} << 20;
  options.threads = 2;
  options.pin_threads = false;
  options.max_num_batched_tokens = 512;
  options.max_num_seqs = kNumRequests;
  auto runner = ModelRunner::create(options);
  QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
  return std::move(*runner);
}

// CountedExecutor counts the allocations of another executor in execute() and recycle(), and can
// leave out recycle().
class CountedExecutor final : public Executor {
 public:
  CountedExecutor(std::unique_ptr<Executor> inner, bool recycles, int64_t& count)
      : inner_(std::move(inner)), recycles_(recycles), count_(count) {}

  ExecutorInfo info() const override { return inner_->info(); }
  KvSpec kv_spec() const override { return inner_->kv_spec(); }
  int64_t available_kv_bytes() const override { return inner_->available_kv_bytes(); }
  Status initialize(const KvPlan& plan) override { return inner_->initialize(plan); }
  Status warm_up() override { return inner_->warm_up(); }
  Result<StepResult> execute(const StepPlan& plan) override {
    const int64_t before = num_allocations.load();
    Result<StepResult> result = inner_->execute(plan);
    count_ += num_allocations.load() - before;
    return result;
  }
  void recycle(StepResult&& result) override {
    if (!recycles_) return;
    const int64_t before = num_allocations.load();
    inner_->recycle(std::move(result));
    count_ += num_allocations.load() - before;
  }

 private:
  const std::unique_ptr<Executor> inner_;
  const bool recycles_;
  int64_t& count_;
};

struct Rig {
  std::unique_ptr<Engine> engine;
  std::vector<std::shared_ptr<OutputChannel>> channels;
  int64_t in_executor = 0;

  explicit Rig(std::shared_ptr<const Tokenizer> tokenizer, bool recycles = true) {
    EngineOptions options;
    options.scheduler.max_num_seqs = kNumRequests;
    options.scheduler.max_num_batched_tokens = 512;
    options.log_interval_us = 0;
    options.kv.residency_sample_rate = 0.0;
    auto made = Engine::create(
        options, std::make_unique<CountedExecutor>(make_runner(), recycles, in_executor),
        std::move(tokenizer), std::make_shared<SteadyClock>());
    QUIRE_CHECK(made.ok(), "{}", made.status().message());
    engine = std::move(*made);
  }

  void add(int32_t i, const SamplingParams& params) {
    GenerationRequest request;
    for (int32_t k = 0; k < 24; ++k) request.prompt_token_ids.push_back(100 + i * 7 + k);
    request.params = params;
    request.params.ignore_eos = true;
    request.params.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request.params.top_p = 0.9f;
    request.params.presence_penalty = i % 4 == 3 ? 0.5f : 0.0f;
    channels.push_back(std::make_shared<OutputChannel>(1, StreamLimits{}, nullptr));
    const Status added =
        engine->add({GroupId(static_cast<uint64_t>(i) + 1), std::move(request), channels.back()});
    QUIRE_CHECK(added.ok(), "{}", added.message());
  }

  // Runs one step and returns what the engine, without the executor, allocated in it. Readers read
  // after that.
  int64_t step(int64_t& num_deltas) {
    const int64_t executor_before = in_executor;
    const int64_t before = num_allocations.load();
    QUIRE_CHECK(engine->step());
    const int64_t in_step = num_allocations.load() - before - (in_executor - executor_before);
    for (auto& channel : channels) {
      while (channel->try_pop()) ++num_deltas;
    }
    return in_step;
  }
};

TEST(NoAllocation, SteadyDecodeSteps) {
#ifdef QUIRE_DEBUG_CHECKS
  GTEST_SKIP() << "SKIPPED: debug checks allocate at every step; run a release build";
#endif
  auto tokenizer = tokenizer_from_json(test::read_file(model_dir() / "tokenizer.json"),
                                       test::read_file(model_dir() / "tokenizer_config.json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  Rig rig(std::shared_ptr<const Tokenizer>(std::move(*tokenizer)));
  SamplingParams params;
  params.max_tokens = kNumTokens;
  for (int32_t i = 0; i < kNumRequests; ++i) rig.add(i, params);
  constexpr int kWarmUp = 64;
  int64_t num_deltas = 0;
  for (int i = 0; i < kWarmUp; ++i) rig.step(num_deltas);
  num_deltas = 0;
  rig.in_executor = 0;
  int64_t in_engine = 0;
  // The prompts take one step, which returns the first token; the last step ends the requests.
  for (int i = kWarmUp; i < kNumTokens - 1; ++i) in_engine += rig.step(num_deltas);
  EXPECT_EQ(rig.in_executor, 0);
  EXPECT_EQ(num_deltas, int64_t{kNumRequests} * (kNumTokens - 1 - kWarmUp));
  // A delta passes token ids to another thread, which needs a list for them and a place in the
  // queue for the delta. Text that is too long to be stored inside a string object is rare.
  EXPECT_LE(in_engine, 2 * num_deltas);
  RecordProperty("allocations_per_delta_percent",
                 static_cast<int>(100 * in_engine / std::max<int64_t>(1, num_deltas)));
}

// Returns every token, log-probability and prompt log-probability as text.
std::string answers(bool recycles) {
  Rig rig(nullptr, recycles);
  for (int32_t i = 0; i < kNumRequests; ++i) {
    SamplingParams params;
    params.seed = 7;
    params.max_tokens = 5 + 3 * i;  // the batch shrinks
    if (i % 3 == 0) params.logprobs = 2;
    if (i % 3 == 1) params.prompt_logprobs = 1;
    rig.add(i, params);
  }
  while (rig.engine->has_unfinished()) rig.engine->step();
  std::string text;
  const auto print = [&](const std::vector<TokenLogprobs>& logprobs) {
    for (const TokenLogprobs& one : logprobs) {
      text += fmt::format(" {}:{}:{}", one.token_id, one.logprob, one.top.size());
    }
  };
  for (const auto& channel : rig.channels) {
    while (const auto delta = channel->try_pop()) {
      for (const TokenId id : delta->token_ids) text += fmt::format(" {}", id);
      print(delta->logprobs);
      print(delta->prompt_logprobs);
    }
    text += '\n';
  }
  return text;
}

TEST(NoAllocation, UsedMemorySaysNothingOfEarlierSteps) {
  const std::string expected = answers(false);
  EXPECT_GT(expected.size(), 1000u);
  EXPECT_EQ(answers(true), expected);
}

}  // namespace
}  // namespace quire
