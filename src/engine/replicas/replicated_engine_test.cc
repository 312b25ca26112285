#include "engine/replicas/replicated_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "engine/observe/engine_stats.h"
#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::tokens;

struct Fleet {
  std::vector<FakeExecutor*> fakes;
  std::unique_ptr<AsyncEngine> engine;
};

Fleet serve(int count, test::RigOptions options = test::small_rig(),
            Routing routing = Routing::kPrefixAware,
            ReplicaAdapters adapters = ReplicaAdapters::kShared) {
  options.fake.wait = nullptr;
  options.engine.scheduler.max_model_len = 512;
  options.engine.num_blocks = 513;
  Fleet fleet;
  std::vector<std::unique_ptr<AsyncEngine>> engines;
  const auto clock = std::make_shared<SteadyClock>();
  for (int i = 0; i < count; ++i) {
    auto fake = std::make_unique<FakeExecutor>(options.fake);
    fleet.fakes.push_back(fake.get());
    auto engine = make_async_engine(options.engine, std::move(fake), options.tokenizer, clock);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    engines.push_back(std::move(engine).value());
  }
  fleet.engine = make_replicated_engine(std::move(engines), {.routing = routing}, adapters);
  return fleet;
}

test::RigOptions fast_rig() {
  test::RigOptions options = test::small_rig();
  options.fake.step_us = 0;
  return options;
}

Answer read_all(OutputStream& stream) {
  Answer answer;
  while (auto delta = stream.pop()) answer.add(std::move(*delta));
  return answer;
}

std::vector<uint64_t> received(const AsyncEngine& engine) {
  std::vector<uint64_t> counts;
  for (const EngineStats& stats : engine.stats_by_engine())
    counts.push_back(stats.requests_received);
  return counts;
}

TEST(ReplicatedEngine, AnswersAreThoseOfOneEngine) {
  Fleet fleet = serve(3, fast_rig());
  std::mt19937 rng(3);
  std::vector<std::unique_ptr<OutputStream>> streams;
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 60; ++i) {
    auto r = request(
        tokens(1 + static_cast<int32_t>(rng() % 100), 1 + static_cast<int32_t>(rng() % 9)), 12);
    r.params.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    requests.push_back(r);
    auto stream = fleet.engine->submit(std::move(r), nullptr);
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    streams.push_back(std::move(*stream));
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(read_all(*streams[i]).token_ids,
              fleet.fakes[0]->expected_output(requests[i].prompt_token_ids, requests[i].params));
  }
  const EngineStats sum = fleet.engine->stats();
  EXPECT_EQ(sum.requests_received, 60u);
  EXPECT_EQ(sum.generation_tokens, 60u * 12);
  EXPECT_EQ(sum.e2e_request_latency_seconds.count, 60u);
  EXPECT_EQ(sum.num_kv_blocks, 3 * 512);
  for (const uint64_t count : received(*fleet.engine)) EXPECT_GT(count, 5u);
  for (const FakeExecutor* fake : fleet.fakes) EXPECT_TRUE(fake->violations().empty());
}

TEST(ReplicatedEngine, PromptsThatBeginAlikeMeetTheirCache) {
  Fleet fleet = serve(4, fast_rig());
  for (int turn = 0; turn < 5; ++turn) {
    for (int32_t family = 0; family < 8; ++family) {
      auto prompt = tokens(128, family * 20 + 1);
      prompt.push_back(turn);
      auto stream = fleet.engine->submit(request(std::move(prompt), 2), nullptr);
      ASSERT_TRUE(stream.ok());
      const Answer answer = read_all(**stream);
      EXPECT_EQ(answer.num_cached_tokens, turn == 0 ? 0 : 128) << turn << " " << family;
    }
  }
  for (const uint64_t count : received(*fleet.engine)) EXPECT_EQ(count, 10u);
}

TEST(ReplicatedEngine, AFullQueueSpillsAndAllFullRefuses) {
  test::RigOptions options = test::small_rig();
  options.engine.scheduler.max_num_queued_reqs = 2;
  options.fake.step_us = 20'000;
  Fleet fleet = serve(2, options, Routing::kSession);
  ASSERT_TRUE(test::pause(*fleet.engine, PauseMode::kKeep, false).ok());
  EXPECT_TRUE(fleet.engine->paused());
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (int i = 0; i < 4; ++i) {
    auto stream = fleet.engine->submit(request(tokens(8), 2), nullptr);
    ASSERT_TRUE(stream.ok()) << i << ": " << stream.status().message();
    streams.push_back(std::move(*stream));
  }
  EXPECT_EQ(fleet.engine->submit(request(tokens(8), 2), nullptr).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(received(*fleet.engine), (std::vector<uint64_t>{2, 2}));
  EXPECT_TRUE(fleet.engine->has_waiting());
  ASSERT_TRUE(fleet.engine->resume().ok());
  for (auto& stream : streams) EXPECT_EQ(read_all(*stream).token_ids.size(), 2u);
  // The load of those requests is gone, so a new one is taken.
  EXPECT_TRUE(fleet.engine->submit(request(tokens(8), 2), nullptr).ok());
}

TEST(ReplicatedEngine, WhatCanNeverRunIsRefusedOnce) {
  Fleet fleet = serve(2, fast_rig());
  EXPECT_EQ(fleet.engine->submit(request(tokens(600), 2), nullptr).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(fleet.engine->stats().requests_refused, 1u);
}

TEST(ReplicatedEngine, PausesSleepsAndAbortsAllOfThem) {
  test::RigOptions options = test::small_rig();
  options.fake.step_us = 2'000;
  Fleet fleet = serve(3, options, Routing::kRoundRobin);
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (int i = 0; i < 6; ++i) {
    auto r = request(tokens(8), 400);
    r.external_id = fmt::format("r{}", i);
    streams.push_back(std::move(fleet.engine->submit(std::move(r), nullptr)).value());
  }
  const std::string some[] = {"r0", "r1"};
  EXPECT_EQ(fleet.engine->abort_requests(some).value(), 2);
  EXPECT_FALSE(fleet.engine->reset_prefix_cache().ok());
  ASSERT_TRUE(test::sleep(*fleet.engine, 1, PauseMode::kAbort).ok());
  EXPECT_EQ(fleet.engine->sleep_level(), 1);
  EXPECT_EQ(fleet.engine->stats().sleep_level, 1);
  for (auto& stream : streams) EXPECT_EQ(read_all(*stream).finish_reason, FinishReason::kAbort);
  ASSERT_TRUE(fleet.engine->wake_up().ok());
  EXPECT_FALSE(fleet.engine->paused());
  EXPECT_TRUE(fleet.engine->reset_prefix_cache().ok());
  EXPECT_EQ(fleet.engine->stats().kv_blocks_cached, 0);
  EXPECT_EQ(fleet.engine->kv_grid().blocks.size(), 3u * 513);
}

TEST(ReplicatedEngine, DrainFinishesWhatRunsOnEveryEngine) {
  test::RigOptions options = test::small_rig();
  options.fake.step_us = 1'000;
  Fleet fleet = serve(2, options, Routing::kRoundRobin);
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (int i = 0; i < 8; ++i)
    streams.push_back(std::move(fleet.engine->submit(request(tokens(8), 30), nullptr)).value());
  std::thread drain([&] { fleet.engine->drain(10'000'000); });
  while (fleet.engine->submit(request(tokens(8), 1), nullptr).ok())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (auto& stream : streams) EXPECT_EQ(read_all(*stream).token_ids.size(), 30u);
  drain.join();
  EXPECT_EQ(fleet.engine->submit(request(tokens(8), 1), nullptr).status().code(),
            StatusCode::kUnavailable);
}

class AdaptersOfReplicas : public ::testing::TestWithParam<ReplicaAdapters> {};

// The adapter is read by one engine for all, or by each engine for itself.
TEST_P(AdaptersOfReplicas, ServeOnAllEngines) {
  test::RigOptions options = fast_rig();
  options.fake.takes_adapters = true;
  Fleet fleet = serve(2, options, Routing::kRoundRobin, GetParam());
  const auto adapter = fleet.engine->load_adapter("a", "a");
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  std::vector<std::vector<TokenId>> answers;
  for (int i = 0; i < 4; ++i) {
    auto r = request(tokens(40), 8);
    r.adapter = *adapter;
    auto stream = fleet.engine->submit(std::move(r), nullptr);
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    answers.push_back(read_all(**stream).token_ids);
    EXPECT_EQ(answers.back(), answers.front());
  }
  EXPECT_EQ(received(*fleet.engine), (std::vector<uint64_t>{2, 2}));
  auto without = fleet.engine->submit(request(tokens(40), 8), nullptr);
  ASSERT_TRUE(without.ok());
  EXPECT_NE(read_all(**without).token_ids, answers.front());
}

INSTANTIATE_TEST_SUITE_P(All, AdaptersOfReplicas,
                         ::testing::Values(ReplicaAdapters::kShared, ReplicaAdapters::kOwn),
                         [](const auto& info) {
                           return info.param == ReplicaAdapters::kShared ? "Shared" : "Own";
                         });

TEST(ReplicatedEngine, OneDeadEngineIsADeadServer) {
  test::RigOptions options = fast_rig();
  std::atomic<bool> is_lost{false};
  options.fake.fail_step = [&](const StepPlan&) {
    return is_lost ? unavailable("device lost") : Status();
  };
  Fleet fleet = serve(2, options);
  EXPECT_TRUE(fleet.engine->healthy());
  is_lost = true;
  auto stream = fleet.engine->submit(request(tokens(8), 4), nullptr);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(read_all(**stream).finish_reason, FinishReason::kError);
  for (int i = 0; i < 1000 && fleet.engine->healthy(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(fleet.engine->healthy());
}

}  // namespace
}  // namespace quire
