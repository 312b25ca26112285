// Law L4 for separate prefill and decode: an answer that continues from KV which another engine
// computed has the bits of one engine's answer, whatever the ranks, stages and blocks of both.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "comm/testing/linked_ranks.h"
#include "exec/model_runner.h"
#include "ranks/leading_executor.h"
#include "ranks/pipeline_executor.h"
#include "ranks/ranked_executor.h"
#include "tests/laws/handover_system.h"

namespace quire {
namespace {

using namespace handover_test;

struct Side {
  int num_ranks = 1;
  int num_stages = 1;
  int32_t block_size = 16;
};

std::string to_string(const Side& side) {
  return fmt::format("{} ranks, {} stages, blocks of {}", side.num_ranks, side.num_stages,
                     side.block_size);
}

// Returns null if the model cannot be split into so many ranks or stages.
std::unique_ptr<Executor> make_executor(const TestModel& model, const Side& side) {
  const ModelRunnerOptions options = runner_options(model, side.block_size);
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

class Handovers : public ::testing::TestWithParam<TestModel> {};

TEST_P(Handovers, SameBitsBetweenUnlikeEngines) {
  const TestModel& model = GetParam();
  const Side one;
  const Text want = Server(make_executor(model, one), one.block_size, "").ask(make_request(1));
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
    Server prefill(std::move(giver), giving.block_size, folder.string(), {.gives = true});
    Server decode(std::move(taker), taking.block_size, folder.string(), {.takes = true});
    GenerationRequest request = make_request(1);
    const Text given = prefill.ask(first_leg(request));
    ASSERT_TRUE(given.status.ok()) << given.status.message();
    ASSERT_NE(given.handover, nullptr);
    EXPECT_EQ(given.handover->num_tokens, 64);
    request.handover = given.handover;
    expect_same_bits(decode.ask(request), want);
    decode.ask(make_request(2));  // a step updates the counters
    EXPECT_EQ(decode.stats().kv_files->takeovers, 1);
    EXPECT_EQ(decode.stats().kv_files->takeovers_failed, 0);
    // The first server reads what the decoding one has written.
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

INSTANTIATE_TEST_SUITE_P(
    All, Handovers,
    ::testing::Values(TestModel{"llama"}, TestModel{"llama", "int8"}, TestModel{"llama", "float32"},
                      TestModel{"gemma3"}, TestModel{"gpt_oss"}, TestModel{"deepseek_v2"},
                      TestModel{"deepseek_v32"}, TestModel{"jamba"}, TestModel{"mamba2"},
                      TestModel{"qwen3_next"}, TestModel{"lfm2"}),
    [](const auto& info) {
      return info.param.name + (info.param.kv_dtype == "auto" ? "" : "_" + info.param.kv_dtype);
    });

// If files were removed between the legs, the request fails or is computed again, as the engine's
// option says.
TEST(Handovers, WhatHasGoneFailsOrIsComputed) {
  const TestModel model{"llama"};
  const Side ranks{2, 1, 8}, one;
  const Text want = Server(make_executor(model, one), one.block_size, "").ask(make_request(1));
  for (const bool recomputes : {false, true}) {
    for (const bool keeps_first : {false, true}) {
      const test::TempFolder folder;
      Server prefill(make_executor(model, ranks), ranks.block_size, folder.string(),
                     {.gives = true});
      Server decode(make_executor(model, one), one.block_size, folder.string(),
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

// Asks a server of several processes, which are threads here.
Text ask_processes(const TestModel& model, const Side& side, RankProcess process,
                   const std::string& folder, const KvHandoverOptions& handover,
                   const GenerationRequest& request) {
  process.port = test::free_port();
  std::vector<std::thread> others;
  for (process.rank = 1; process.rank < process.size; ++process.rank) {
    others.emplace_back([&model, &side, process] {
      EXPECT_TRUE(follow_first_rank(runner_options(model, side.block_size), process).ok());
    });
  }
  process.rank = 0;
  Text text;
  {
    auto first = LeadingExecutor::create(runner_options(model, side.block_size), process);
    QUIRE_CHECK(first.ok(), "{}", first.status().message());
    text = Server(*std::move(first), side.block_size, folder, handover).ask(request);
  }
  for (std::thread& other : others) other.join();
  return text;
}

// The first process reads and writes the host blocks of all processes: it accesses those of its own
// machine directly, and has copies of the others.
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
    const TestModel model{name};
    const Text want = Server(make_executor(model, one), one.block_size, "").ask(make_request(1));
    const test::TempFolder folder;
    GenerationRequest request = make_request(1);
    request.handover =
        ask_processes(model, other, process, folder.string(), {.gives = true}, first_leg(request))
            .handover;
    ASSERT_NE(request.handover, nullptr);
    EXPECT_EQ(request.handover->num_tokens, 64);
    const Text text =
        Server(make_executor(model, one), one.block_size, folder.string(), {.takes = true})
            .ask(request);
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
