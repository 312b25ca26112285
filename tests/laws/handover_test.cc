// Law L4 for prefill and decode apart: an answer that goes on from KV which another engine computed has
// the bits of one engine's, whatever the ranks, stages and blocks of either.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "comm/testing/linked_ranks.h"
#include "engine/engine.h"
#include "exec/model_runner.h"
#include "ranks/leading_executor.h"
#include "ranks/pipeline_executor.h"
#include "ranks/ranked_executor.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"
#include "transfer/kv_file_store.h"

namespace quire {
namespace {

constexpr int32_t kPromptTokens = 70;
constexpr int32_t kOutputTokens = 12;

struct Side {
  int num_ranks = 1;
  int num_stages = 1;
  int32_t block_size = 16;
};

std::string to_string(const Side& side) {
  return fmt::format("{} ranks, {} stages, blocks of {}", side.num_ranks, side.num_stages,
                     side.block_size);
}

struct Model {
  std::string name;
  std::string kv_dtype = "auto";
};

ModelRunnerOptions runner_options(const Model& model, const Side& side) {
  const auto path = test::source_dir() / "tests" / "goldens" / "models" / model.name;
  auto files = ModelFiles::open(path.string());
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.kv_cache_dtype = model.kv_dtype;
  options.block_size = side.block_size;
  options.state_block_size = side.block_size;
  options.max_model_len = 96;
  options.kv_cache_memory_bytes = int64_t{32} << 20;
  options.host_kv_bytes = int64_t{8} << 20;
  options.threads = 1;
  options.max_num_batched_tokens = 64;
  options.max_num_seqs = 8;
  return options;
}

// Null: so many ranks or stages cannot share the model.
std::unique_ptr<Executor> make_executor(const Model& model, const Side& side) {
  const ModelRunnerOptions options = runner_options(model, side);
  if (side.num_stages > 1) {
    auto made = PipelineExecutor::create(
        options, {.num_stages = side.num_stages, .num_ranks = side.num_ranks});
    return made.ok() ? *std::move(made) : nullptr;
  }
  if (side.num_ranks > 1) {
    auto made = RankedExecutor::create(options, side.num_ranks);
    return made.ok() ? *std::move(made) : nullptr;
  }
  auto made = ModelRunner::create(options);
  QUIRE_CHECK(made.ok(), "{}", made.status().message());
  return *std::move(made);
}

struct Text {
  Status status;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  std::shared_ptr<const KvHandover> handover;
  int32_t num_cached_tokens = 0;
};

class Server {
 public:
  // An empty folder: no files.
  Server(std::unique_ptr<Executor> executor, const Side& side, const std::string& folder,
         const KvHandoverOptions& handover = {}) {
    EngineOptions options;
    options.num_blocks = 60;
    options.log_interval_us = 0;
    options.scheduler.max_model_len = 96;
    options.scheduler.max_num_seqs = 8;
    options.scheduler.max_num_batched_tokens = 24;  // a prompt takes several steps
    if (!folder.empty()) {
      auto directory = KvDirectory::open(folder, {1, 2, 3});
      QUIRE_CHECK(directory.ok(), "{}", directory.status().message());
      options.kv.hash_seed = directory->hash_seed();
      options.kv.files = {.capacity_bytes = int64_t{1} << 30, .run_blocks = 2};
      options.kv_offload_bytes = int64_t{8} << 20;
      options.kv_handover = handover;
      options.open_kv_files = [directory = *directory,
                               block_size = side.block_size](const KvHostMemory& memory) {
        return make_kv_file_store(directory, memory, block_size);
      };
    }
    auto engine =
        Engine::create(options, std::move(executor), nullptr, std::make_shared<SteadyClock>());
    QUIRE_CHECK(engine.ok(), "{}", engine.status().message());
    engine_ = *std::move(engine);
  }
  ~Server() { EXPECT_EQ(engine_->stats().kv_blocks_in_use, 0); }

  Text ask(GenerationRequest request) {
    Text text;
    text.status = engine_->prepare(request);
    if (!text.status.ok()) return text;
    auto channel = std::make_shared<OutputChannel>(1, StreamLimits{}, nullptr);
    text.status = engine_->add({GroupId(++num_requests_), std::move(request), channel});
    while (text.status.ok() && engine_->has_unfinished()) {
      if (!engine_->step()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      while (auto delta = channel->try_pop()) take(*delta, text);
    }
    return text;
  }
  EngineStats stats() const { return engine_->stats(); }

 private:
  static void take(OutputDelta& delta, Text& text) {
    text.token_ids.insert(text.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    text.logprobs.insert(text.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (delta.handover != nullptr) text.handover = delta.handover;
    if (!delta.status.ok()) text.status = delta.status;
    text.num_cached_tokens = std::max(text.num_cached_tokens, delta.num_cached_tokens);
  }

  std::unique_ptr<Engine> engine_;
  uint64_t num_requests_ = 0;
};

GenerationRequest make_request(uint32_t seed) {
  GenerationRequest request;
  request.external_id = "test";
  for (int32_t i = 0; i < kPromptTokens; ++i)
    request.prompt_token_ids.push_back(static_cast<TokenId>((seed * 31 + i * 7) % 150 + 3));
  request.params.max_tokens = kOutputTokens;
  request.params.ignore_eos = true;
  request.params.temperature = 1.0f;
  request.params.seed = 5;
  request.params.logprobs = 2;
  return request;
}

GenerationRequest first_leg(GenerationRequest request) {
  request.params.max_tokens = 1;
  request.hands_over_kv = true;
  return request;
}

void expect_same_bits(const Text& got, const Text& want) {
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_EQ(got.token_ids, want.token_ids);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(got.logprobs[i].logprob),
              std::bit_cast<uint32_t>(want.logprobs[i].logprob));
}

class Handovers : public ::testing::TestWithParam<Model> {};

TEST_P(Handovers, SameBitsBetweenUnlikeEngines) {
  const Model& model = GetParam();
  const Side one;
  const Text want = Server(make_executor(model, one), one, "").ask(make_request(1));
  ASSERT_EQ(std::ssize(want.token_ids), kOutputTokens);
  int num_pairs = 0;
  for (const auto& [giving, taking] : {std::pair(Side{1, 1, 16}, Side{2, 1, 32}),
                                       {Side{2, 1, 8}, Side{1, 1, 16}},
                                       {Side{2, 1, 16}, Side{4, 1, 8}},
                                       {Side{1, 2, 32}, Side{2, 1, 8}},
                                       {Side{1, 1, 8}, Side{2, 2, 32}}}) {
    SCOPED_TRACE(to_string(giving) + " to " + to_string(taking));
    const bool has_many = giving.num_ranks * taking.num_ranks * taking.num_stages > 2;
    if (has_many && model.name != "llama") continue;
    auto giver = make_executor(model, giving), taker = make_executor(model, taking);
    if (giver == nullptr || taker == nullptr) continue;
    ++num_pairs;
    const test::TempFolder folder;
    Server prefill(std::move(giver), giving, folder.string(), {.gives = true});
    Server decode(std::move(taker), taking, folder.string(), {.takes = true});
    GenerationRequest request = make_request(1);
    const Text given = prefill.ask(first_leg(request));
    ASSERT_TRUE(given.status.ok()) << given.status.message();
    ASSERT_NE(given.handover, nullptr);
    EXPECT_EQ(given.handover->num_tokens, 64);
    request.handover = given.handover;
    expect_same_bits(decode.ask(request), want);
    decode.ask(make_request(2));  // whose step shows the counters
    EXPECT_EQ(decode.stats().kv_files->takeovers, 1);
    EXPECT_EQ(decode.stats().kv_files->takeovers_failed, 0);
    // What the one that decodes has written, the other one reads.
    GenerationRequest longer = make_request(1);
    longer.params.max_tokens = 1;
    expect_same_bits(prefill.ask(longer), [&] {
      Text first = want;
      first.token_ids.resize(1);
      first.logprobs.resize(1);
      return first;
    }());
  }
  EXPECT_GE(num_pairs, 2) << "the model is shared by too few numbers of ranks";
}

INSTANTIATE_TEST_SUITE_P(All, Handovers,
                         ::testing::Values(Model{"llama"}, Model{"llama", "int8"},
                                           Model{"llama", "float32"}, Model{"gemma3"},
                                           Model{"gpt_oss"}, Model{"deepseek_v2"},
                                           Model{"deepseek_v32"}, Model{"jamba"}, Model{"mamba2"},
                                           Model{"qwen3_next"}, Model{"lfm2"}),
                         [](const auto& info) {
                           return info.param.name +
                                  (info.param.kv_dtype == "auto" ? "" : "_" + info.param.kv_dtype);
                         });

// Files that have gone between the legs: the request fails, or is computed, as its engine is told.
TEST(Handovers, WhatHasGoneFailsOrIsComputed) {
  const Model model{"llama"};
  const Side ranks{2, 1, 8}, one;
  const Text want = Server(make_executor(model, one), one, "").ask(make_request(1));
  for (const bool recomputes : {false, true}) {
    for (const bool keeps_first : {false, true}) {
      const test::TempFolder folder;
      Server prefill(make_executor(model, ranks), ranks, folder.string(), {.gives = true});
      Server decode(make_executor(model, one), one, folder.string(),
                    {.takes = true, .recomputes = recomputes});
      GenerationRequest request = make_request(1);
      request.handover = prefill.ask(first_leg(request)).handover;
      ASSERT_NE(request.handover, nullptr);
      ASSERT_GT(request.handover->files.size(), 2u);
      for (const std::string& file : request.handover->files) {
        if (!keeps_first || file != request.handover->files.front())
          std::filesystem::remove(folder / file);
      }
      const Text text = decode.ask(request);
      if (recomputes) {
        expect_same_bits(text, want);
      } else {
        EXPECT_EQ(text.status.code(), StatusCode::kUnavailable);
      }
    }
  }
}

// Asks a server of several processes, here threads.
Text ask_processes(const Model& model, const Side& side, RankProcess process,
                   const std::string& folder, const KvHandoverOptions& handover,
                   const GenerationRequest& request) {
  process.port = test::free_port();
  std::vector<std::thread> others;
  for (process.rank = 1; process.rank < process.size; ++process.rank) {
    others.emplace_back([&model, &side, process] {
      EXPECT_TRUE(follow_first_rank(runner_options(model, side), process).ok());
    });
  }
  process.rank = 0;
  Text text;
  {
    auto first = LeadingExecutor::create(runner_options(model, side), process);
    QUIRE_CHECK(first.ok(), "{}", first.status().message());
    text = Server(*std::move(first), side, folder, handover).ask(request);
  }
  for (std::thread& other : others) other.join();
  return text;
}

// The first process reads and writes the host blocks of all: it sees those of its own machine, and has
// copies of the others.
TEST(Handovers, RanksOfProcessesHaveTheSameFiles) {
  const Side one, other{1, 1, 8};
  constexpr auto kTcp = RankTransport::kTcp, kFastest = RankTransport::kFastest;
  for (const auto& [name, process] :
       {std::pair("llama", RankProcess{.size = 2, .transport = kFastest}),
        {"llama", RankProcess{.size = 2, .num_stages = 2, .transport = kFastest}},
        {"llama", RankProcess{.size = 4, .num_stages = 2, .transport = kTcp}},
        {"jamba", RankProcess{.size = 2, .transport = kTcp}}}) {
    SCOPED_TRACE(
        fmt::format("{} on {} processes in {} stages", name, process.size, process.num_stages));
    const Model model{name};
    const Text want = Server(make_executor(model, one), one, "").ask(make_request(1));
    const test::TempFolder folder;
    GenerationRequest request = make_request(1);
    request.handover =
        ask_processes(model, other, process, folder.string(), {.gives = true}, first_leg(request))
            .handover;
    ASSERT_NE(request.handover, nullptr);
    EXPECT_EQ(request.handover->num_tokens, 64);
    const Text text =
        Server(make_executor(model, one), one, folder.string(), {.takes = true}).ask(request);
    expect_same_bits(text, want);
    EXPECT_EQ(text.num_cached_tokens, 64);
    const Text of_processes =
        ask_processes(model, other, process, folder.string(), {.takes = true}, request);
    expect_same_bits(of_processes, want);
    EXPECT_EQ(of_processes.num_cached_tokens, 64);
  }
}

}  // namespace
}  // namespace quire
