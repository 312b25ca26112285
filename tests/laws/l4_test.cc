// Law L4 over the real scheduler, KV manager and model: whatever the three decide together (chunks,
// batch mates, prefix hits, windows that free blocks, preemptions, copy-on-write forks), a request
// gets the bits that it gets alone.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <map>
#include <random>

#include "exec/model_runner.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"
#include "tests/laws/golden_model.h"

namespace quire {
namespace {

constexpr int32_t kVocab = 160;
constexpr int32_t kMaxModelLen = 112;

struct Output {
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  RequestStatus status = RequestStatus::kWaiting;
};

struct Arrival {
  Request request;
  int step = 0;  // the step of the run in which the request is added
};

struct RunStats {
  int64_t num_preemptions = 0;
  int64_t prefix_hits = 0;
  int64_t num_forks = 0;
};

// The blocks of each pool, with the null block.
struct Blocks {
  int32_t attention = 0;
  int32_t state = 0;
};

Request make_request(uint64_t id, const std::vector<TokenId>& prompt, uint64_t seed,
                     int32_t max_tokens) {
  auto params = std::make_shared<SamplingParams>();
  params->max_tokens = max_tokens;
  params->temperature = seed % 2 == 0 ? 0.8f : 0.0f;
  params->top_k = 50;
  params->presence_penalty = 0.3f;
  params->seed = seed;
  params->logprobs = 2;
  Request request;
  request.id = RequestId{id};
  request.token_ids = prompt;
  request.num_prompt_tokens = static_cast<int32_t>(prompt.size());
  request.params = std::move(params);
  return request;
}

class System {
 public:
  System(const std::string& model, const std::string& dtype, int threads) {
    ModelRunnerOptions options;
    options.files = test::golden_model(model);
    options.dtype = dtype;
    options.block_size = 8;
    options.state_block_size = 16;
    options.max_model_len = kMaxModelLen;
    options.kv_cache_memory_bytes = int64_t{64} << 20;
    options.threads = threads;
    options.pin_threads = false;
    options.max_num_batched_tokens = 512;
    options.max_num_seqs = 48;
    auto runner = ModelRunner::create(options);
    QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
    runner_ = std::move(*runner);
    QUIRE_CHECK(
        runner_->initialize({.num_blocks = kMaxBlocks, .num_state_blocks = kMaxBlocks}).ok());
  }

  // Runs the requests with an empty cache of so many blocks.
  std::map<uint64_t, Output> run(std::vector<Arrival> arrivals, SchedulerConfig config,
                                 Blocks blocks, RunStats* stats = nullptr) {
    QUIRE_CHECK(blocks.attention <= kMaxBlocks && blocks.state <= kMaxBlocks);
    config.max_model_len = kMaxModelLen;
    KvManager kv(runner_->kv_spec(), blocks.attention,
                 {.max_sequence_tokens = kMaxModelLen,
                  .max_step_tokens = config.max_num_batched_tokens,
                  .num_state_blocks = blocks.state});
    Scheduler scheduler(config, kv);
    std::map<uint64_t, Output> outputs;
    size_t added = 0;
    for (int step = 0; added < arrivals.size() || scheduler.has_unfinished(); ++step) {
      QUIRE_CHECK(step < 20000, "the run does not end");
      for (; added < arrivals.size() && arrivals[added].step <= step; ++added) {
        const Status status = scheduler.add(arrivals[added].request, step * 1000);
        QUIRE_CHECK(status.ok(), "{}", status.message());
      }
      const StepPlan& plan = scheduler.schedule(step * 1000);
      const Result<StepResult> result = runner_->execute(plan);
      QUIRE_CHECK(result.ok(), "{}", result.status().message());
      for (const RequestUpdate& update : scheduler.update(*result, step * 1000 + 500)) {
        Output& output = outputs[update.id.value];
        output.token_ids.insert(output.token_ids.end(), update.new_token_ids.begin(),
                                update.new_token_ids.end());
        if (update.result != nullptr) {
          output.logprobs.insert(output.logprobs.end(), update.result->logprobs.begin(),
                                 update.result->logprobs.end());
        }
        if (update.finished) output.status = *update.finished;
      }
    }
    // The executor still has to drop the requests that finished last.
    const Result<StepResult> last = runner_->execute(scheduler.schedule(1'000'000'000));
    QUIRE_CHECK(last.ok(), "{}", last.status().message());
    if (stats != nullptr)
      *stats = {scheduler.stats().num_preemptions, scheduler.stats().prefix_hits,
                scheduler.stats().num_forks};
    return outputs;
  }

  KvSpec kv_spec() const { return runner_->kv_spec(); }

 private:
  static constexpr int32_t kMaxBlocks = 4096;
  std::unique_ptr<ModelRunner> runner_;
};

// Some requests share a prefix, some repeat a prompt, some share nothing.
std::vector<Arrival> make_load(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> shared(60);
  for (TokenId& token : shared) token = static_cast<TokenId>(random() % kVocab);
  std::vector<Arrival> arrivals;
  for (uint64_t id = 0; id < 33; ++id) {
    std::vector<TokenId> prompt;
    if (id % 3 != 2)
      prompt.assign(shared.begin(), shared.begin() + static_cast<std::ptrdiff_t>(random() % 61));
    if (id % 11 == 5) prompt = shared;  // the same prompt again: a full hit
    const auto tail = id % 11 == 5 ? 0 : 1 + random() % 25;
    for (uint32_t i = 0; i < tail; ++i) prompt.push_back(static_cast<TokenId>(random() % kVocab));
    const auto max_tokens = static_cast<int32_t>(1 + random() % 24);
    arrivals.push_back({make_request(id, prompt, id, max_tokens), static_cast<int>(id / 4)});
  }
  return arrivals;
}

void expect_same_bits(const Output& got, const Output& want, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(got.status, want.status);
  ASSERT_EQ(got.token_ids, want.token_ids);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i) {
    ASSERT_EQ(got.logprobs[i].token_id, want.logprobs[i].token_id);
    ASSERT_EQ(std::bit_cast<uint32_t>(got.logprobs[i].logprob),
              std::bit_cast<uint32_t>(want.logprobs[i].logprob))
        << "token " << i << ": " << got.logprobs[i].logprob << " and " << want.logprobs[i].logprob;
    ASSERT_EQ(got.logprobs[i].top, want.logprobs[i].top);
  }
}

struct Setup {
  const char* model;
  const char* dtype;
};

class LawL4 : public ::testing::TestWithParam<Setup> {
 protected:
  static constexpr Blocks kPlenty{.attention = 4000, .state = 600};
  static constexpr uint32_t kSeed = 20261121;

  // Runs each request by itself on one thread. All other runs are compared with these results.
  std::map<uint64_t, Output> alone() {
    System system(GetParam().model, GetParam().dtype, 1);
    std::map<uint64_t, Output> truth;
    for (Arrival arrival : make_load(kSeed)) {
      arrival.step = 0;
      truth.merge(system.run({arrival}, {}, kPlenty));
    }
    return truth;
  }

  void expect_all(const std::map<uint64_t, Output>& got, const std::map<uint64_t, Output>& want,
                  const std::string& what) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [id, output] : want) {
      expect_same_bits(got.at(id), output,
                       fmt::format("{}, request {}, load seed {}", what, id, kSeed));
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(LawL4, TogetherEqualsAlone) {
  const std::map<uint64_t, Output> want = alone();
  for (const int threads : {1, 2}) {
    System system(GetParam().model, GetParam().dtype, threads);
    for (const int32_t budget : {40, 512}) {
      for (const int32_t chunk : {0, 7, 64}) {
        SchedulerConfig config{.max_num_batched_tokens = budget,
                               .max_num_seqs = 40,
                               .long_prefill_token_threshold = chunk};
        RunStats stats;
        const auto got = system.run(make_load(kSeed), config, kPlenty, &stats);
        EXPECT_GT(stats.prefix_hits, 0) << "the load must hit the prefix cache to mean anything";
        expect_all(got, want,
                   fmt::format("{} threads, budget {}, chunk {}", threads, budget, chunk));
      }
    }
  }
}

TEST_P(LawL4, BoundedByTimeEqualsAlone) {
  const std::map<uint64_t, Output> want = alone();
  System system(GetParam().model, GetParam().dtype, 2);
  // Chunks get the sizes that the predictions lead to.
  for (const int64_t max_step_us : {1, 300, 900}) {
    SchedulerConfig config{
        .max_num_batched_tokens = 512,
        .max_num_seqs = 40,
        .step_time = {.predicted = {.step_us = 100, .decode_us = 7, .prompt_token_us = 11},
                      .max_step_us = max_step_us}};
    expect_all(system.run(make_load(kSeed), config, kPlenty), want,
               fmt::format("steps of {} us", max_step_us));
  }
}

TEST_P(LawL4, PreemptedEqualsAlone) {
  const std::map<uint64_t, Output> want = alone();
  System system(GetParam().model, GetParam().dtype, 2);
  // Forty requests compete for blocks for only a few of the longest. Sliding layers free most of
  // theirs, so that a model with groups of both kinds needs fewer per group before it preempts.
  const KvSpec spec = system.kv_spec();
  const auto groups = static_cast<int32_t>(spec.groups.size()) - spec.uses(KvPool::kState);
  const Blocks blocks{.attention = 1 + groups * (groups == 1 ? 60 : 26), .state = 1 + 20};
  SchedulerConfig config{.max_num_batched_tokens = 200,
                         .max_num_seqs = 40,
                         .reserve_full_isl = false,
                         .watermark = 0.0};
  RunStats stats;
  const auto got = system.run(make_load(kSeed), config, blocks, &stats);
  EXPECT_GT(stats.num_preemptions, 0) << "the load must preempt to mean anything";
  expect_all(got, want, "preempted");
}

// Several requests have the same prompt, and all but the first share the blocks that the first
// computes.
TEST_P(LawL4, ForksEqualAlone) {
  std::vector<Arrival> arrivals;
  for (const uint64_t length : {1, 16, 17, 45, 64}) {
    const std::vector<TokenId> prompt(length, static_cast<TokenId>(length));
    for (uint64_t i = 0; i < 3; ++i) {
      arrivals.push_back({make_request(length * 10 + i, prompt, i + 1, 20), 0});
      if (i > 0) arrivals.back().request.fork_of = RequestId{length * 10};
    }
  }
  System system(GetParam().model, GetParam().dtype, 2);
  std::map<uint64_t, Output> want;
  for (Arrival arrival : arrivals) {
    arrival.request.fork_of.reset();
    want.merge(system.run({arrival}, {}, kPlenty));
  }
  for (const int32_t chunk : {0, 7}) {
    RunStats stats;
    const SchedulerConfig config{
        .max_num_batched_tokens = 512, .max_num_seqs = 40, .long_prefill_token_threshold = chunk};
    expect_all(system.run(arrivals, config, kPlenty, &stats), want, fmt::format("chunk {}", chunk));
    EXPECT_GT(stats.num_forks, 4) << "requests must share to mean anything";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LawL4,
                         ::testing::Values(Setup{"llama", "float32"}, Setup{"llama", "bfloat16"},
                                           Setup{"gemma3", "float32"}, Setup{"gemma3", "bfloat16"},
                                           Setup{"qwen3", "bfloat16"}, Setup{"gpt2", "float32"},
                                           Setup{"gpt2", "bfloat16"}, Setup{"mistral", "bfloat16"},
                                           Setup{"lfm2", "bfloat16"},
                                           Setup{"qwen3_next", "float32"},
                                           Setup{"falcon_h1", "bfloat16"},
                                           Setup{"mamba2", "float32"}, Setup{"qwen3_5", "float32"}),
                         [](const auto& info) {
                           return std::string(info.param.model) + "_" + info.param.dtype;
                         });

}  // namespace
}  // namespace quire
