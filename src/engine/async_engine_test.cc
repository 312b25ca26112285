#include "engine/async_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "engine/observe/engine_stats.h"
#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::RigOptions;
using test::small_rig;
using test::tokens;

struct Served {
  FakeExecutor* fake = nullptr;
  std::unique_ptr<AsyncEngine> engine;
};

Served serve(RigOptions options) {
  options.fake.wait = nullptr;
  auto fake = std::make_unique<FakeExecutor>(options.fake);
  Served served;
  served.fake = fake.get();
  auto engine = make_async_engine(options.engine, std::move(fake), options.tokenizer,
                                  std::make_shared<SteadyClock>());
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  served.engine = std::move(engine).value();
  return served;
}

RigOptions fast_rig() {
  RigOptions options = small_rig();
  options.fake.step_us = 0;
  return options;
}

Answer read_all(OutputStream& stream) {
  Answer answer;
  while (auto delta = stream.pop()) answer.add(std::move(*delta));
  EXPECT_TRUE(stream.done());
  return answer;
}

// Polls the condition: after an abort, the engine thread frees blocks soon, but not at once.
bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(AsyncEngine, AnswersARequest) {
  Served served = serve(fast_rig());
  std::atomic<int> ready{0};
  auto stream = served.engine->submit(request(tokens(10), 20), [&] { ++ready; });
  ASSERT_TRUE(stream.ok()) << stream.status().message();
  const Answer answer = read_all(**stream);
  EXPECT_EQ(answer.token_ids, served.fake->expected_output(tokens(10), request({}, 20).params));
  EXPECT_GT(ready.load(), 0);
  EXPECT_TRUE(served.engine->healthy());
  EXPECT_EQ(served.engine->model_info().max_model_len, 128);
  EXPECT_EQ(served.engine->stats().requests_received, 1u);
}

TEST(AsyncEngine, RequestsWithoutASeedDifferAndThoseWithOneDoNot) {
  Served served = serve(fast_rig());
  const auto tokens_of = [&](std::optional<uint64_t> seed) {
    auto r = request(tokens(10), 20);
    r.params.temperature = 1.0f;
    r.params.seed = seed;
    auto stream = served.engine->submit(std::move(r), nullptr);
    EXPECT_TRUE(stream.ok());
    return read_all(**stream).token_ids;
  };
  EXPECT_NE(tokens_of(std::nullopt), tokens_of(std::nullopt));
  EXPECT_EQ(tokens_of(7), tokens_of(7));
  EXPECT_EQ(tokens_of(0), tokens_of(0));
}

TEST(AsyncEngine, ManyThreadsAtOnce) {
  auto options = fast_rig();
  options.engine.num_blocks = 100;
  Served served = serve(options);
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        auto r = request(tokens(5 + (t * 7 + i) % 60, 1 + t), 1 + i * 3);
        r.params.seed = static_cast<uint64_t>(t);
        const auto expected = served.fake->expected_output(r.prompt_token_ids, r.params);
        auto stream = served.engine->submit(std::move(r), nullptr);
        if (!stream.ok()) continue;
        if (i % 4 == 3) {
          (*stream)->pop();
          continue;  // the client leaves
        }
        good += read_all(**stream).token_ids == expected ? 1 : 0;
        served.engine->stats();
        if (i % 5 == 0) served.engine->kv_grid();
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(good.load(), 8 * 9);
  EXPECT_TRUE(eventually([&] { return served.engine->stats().kv_blocks_in_use == 0; }));
  EXPECT_EQ(served.fake->violations(), std::vector<std::string>{});
}

TEST(AsyncEngine, DestroyingTheStreamAborts) {
  auto options = fast_rig();
  options.fake.step_us = 50'000;  // 5 s unless it is ended
  Served served = serve(options);
  {
    auto stream = served.engine->submit(request(tokens(10), 100), nullptr);
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE((*stream)->pop().has_value());
  }
  EXPECT_TRUE(eventually([&] { return served.engine->stats().request_success_abort == 1; }));
  EXPECT_TRUE(eventually([&] { return served.engine->stats().kv_blocks_in_use == 0; }));
}

TEST(AsyncEngine, ExplicitAbortEndsTheStream) {
  auto options = fast_rig();
  options.fake.step_us = 50'000;  // 5 s unless it is ended
  Served served = serve(options);
  auto stream = served.engine->submit(request(tokens(10), 100), nullptr);
  ASSERT_TRUE(stream.ok());
  (*stream)->abort();
  (*stream)->abort();
  EXPECT_EQ(read_all(**stream).finish_reason, FinishReason::kAbort);
}

TEST(AsyncEngine, FullQueueRefusesAtOnce) {
  auto options = fast_rig();
  std::latch all_submitted(1);
  options.fake.fail_step = [&](const StepPlan&) {
    all_submitted.wait();
    return Status();
  };
  options.engine.scheduler.max_num_seqs = 1;
  options.engine.scheduler.max_num_queued_reqs = 3;
  Served served = serve(options);
  std::vector<std::unique_ptr<OutputStream>> streams;
  int refused = 0;
  for (int i = 0; i < 30; ++i) {
    auto stream = served.engine->submit(request(tokens(10), 2), nullptr);
    if (stream.ok()) {
      streams.push_back(std::move(stream).value());
      continue;
    }
    EXPECT_EQ(stream.status().code(), StatusCode::kResourceExhausted);
    ++refused;
  }
  EXPECT_GE(refused, 24);
  EXPECT_GE(served.engine->retry_after_s(), 1);
  all_submitted.count_down();
  for (auto& stream : streams) EXPECT_EQ(read_all(*stream).finish_reason, FinishReason::kLength);
  EXPECT_EQ(served.engine->stats().requests_refused, static_cast<uint64_t>(refused));
}

TEST(AsyncEngine, DrainFinishesWhatWasAccepted) {
  auto options = fast_rig();
  options.fake.step_us = 1000;
  Served served = serve(options);
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (int i = 0; i < 10; ++i) {
    auto stream = served.engine->submit(request(tokens(10, 1 + i), 10), nullptr);
    ASSERT_TRUE(stream.ok());
    streams.push_back(std::move(stream).value());
  }
  served.engine->drain(60'000'000);
  for (auto& stream : streams) EXPECT_EQ(read_all(*stream).finish_reason, FinishReason::kLength);
  EXPECT_EQ(served.engine->submit(request(tokens(10), 10), nullptr).status().code(),
            StatusCode::kUnavailable);
}

TEST(AsyncEngine, DrainAbortsTheRestAfterItsTimeout) {
  auto options = fast_rig();
  options.fake.step_us = 50'000;  // 5 s unless it is ended
  Served served = serve(options);
  auto stream = served.engine->submit(request(tokens(10), 100), nullptr);
  ASSERT_TRUE(stream.ok());
  served.engine->drain(10'000);
  const Answer answer = read_all(**stream);
  EXPECT_EQ(answer.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(served.engine->stats().kv_blocks_in_use, 0);
}

TEST(AsyncEngine, StreamsOutliveTheEngine) {
  auto options = fast_rig();
  options.fake.step_us = 50'000;  // 5 s unless it is ended
  Served served = serve(options);
  auto stream = served.engine->submit(request(tokens(10), 100), nullptr);
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*stream)->pop().has_value());  // it runs
  std::thread reader([&] { EXPECT_EQ(read_all(**stream).finish_reason, FinishReason::kAbort); });
  served.engine.reset();
  reader.join();
  (*stream)->abort();
}

// After an exception that is not the executor's the thread ends, but no caller hangs.
TEST(AsyncEngine, ADeadEngineTellsEverybody) {
  auto options = fast_rig();
  options.engine.kv.enable_events = true;
  options.engine.on_kv_events = [](const std::vector<KvEvent>&) {
    throw std::runtime_error("boom");
  };
  Served served = serve(options);
  auto stream = served.engine->submit(request(tokens(30), 100), nullptr);
  ASSERT_TRUE(stream.ok());
  const Answer answer = read_all(**stream);
  EXPECT_EQ(answer.finish_reason, FinishReason::kError);
  EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(eventually([&] { return !served.engine->healthy(); }));
  EXPECT_EQ(served.engine->submit(request(tokens(3), 1), nullptr).status().code(),
            StatusCode::kUnavailable);
  EXPECT_TRUE(served.engine->kv_grid().blocks.empty());
  EXPECT_FALSE(served.engine->reset_prefix_cache().ok());
  served.engine->drain(1000);
}

// Every request gets its error, the engine reports once that it has ended, and nothing runs again.
TEST(AsyncEngine, ALostDeviceEndsEverything) {
  for (const bool async_scheduling : {false, true}) {
    auto options = fast_rig();
    options.engine.scheduler.async_scheduling = async_scheduling;
    options.engine.scheduler.max_num_seqs = 2;  // the third request waits
    options.fake.max_steps_in_flight = 2;
    std::latch all_submitted(1);
    options.fake.fail_step = [&](const StepPlan& plan) -> Status {
      if (plan.step_id < 5) return {};
      all_submitted.wait();
      return {StatusCode::kUnavailable, "the device is lost"};
    };
    std::atomic<int> num_deaths = 0;
    options.engine.on_death = [&] { ++num_deaths; };
    Served served = serve(options);
    std::vector<std::unique_ptr<OutputStream>> streams;
    for (int i = 0; i < 3; ++i) {
      auto stream = served.engine->submit(request(tokens(10, 1 + i), 100), nullptr);
      ASSERT_TRUE(stream.ok());
      streams.push_back(std::move(stream).value());
    }
    all_submitted.count_down();
    for (auto& stream : streams) {
      const Answer answer = read_all(*stream);
      EXPECT_EQ(answer.finish_reason, FinishReason::kError);
      EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
      EXPECT_NE(answer.status.message().find("the device is lost"), std::string::npos);
    }
    EXPECT_TRUE(eventually([&] { return num_deaths == 1 && !served.engine->healthy(); }));
    EXPECT_EQ(served.engine->submit(request(tokens(3), 1), nullptr).status().code(),
              StatusCode::kUnavailable);
    served.engine.reset();
    EXPECT_EQ(num_deaths, 1);
  }
}

// The engine also ends when there is nothing to run.
TEST(AsyncEngine, AnIdleEngineEndsWithItsExecutor) {
  auto options = fast_rig();
  std::atomic<bool> is_lost = false;
  options.fake.health = [&]() -> Status {
    if (!is_lost) return {};
    return {StatusCode::kUnavailable, "rank 1 is gone"};
  };
  std::atomic<int> num_deaths = 0;
  options.engine.on_death = [&] { ++num_deaths; };
  Served served = serve(options);
  EXPECT_TRUE(served.engine->healthy());
  is_lost = true;
  EXPECT_FALSE(served.engine->healthy()) << "at once";
  EXPECT_TRUE(eventually([&] { return num_deaths == 1; }));
}

TEST(AsyncEngine, QueuedDeadlineIsKept) {
  auto options = fast_rig();
  options.fake.step_us = 3000;
  options.engine.scheduler.max_num_seqs = 1;
  Served served = serve(options);
  auto busy = served.engine->submit(request(tokens(10), 100), nullptr);
  auto r = request(tokens(10), 10);
  r.timeout_us = 20'000;
  auto late = served.engine->submit(std::move(r), nullptr);
  ASSERT_TRUE(busy.ok() && late.ok());
  EXPECT_EQ(read_all(**late).status.code(), StatusCode::kDeadlineExceeded);
}

// A request that is kept through a pause gives the same output as without one (L4); a request that
// arrived meanwhile runs afterwards.
TEST(AsyncEngine, PausesAndGoesOn) {
  auto options = fast_rig();
  options.fake.step_us = 1000;
  Served served = serve(options);
  const std::vector<TokenId> expected =
      served.fake->expected_output(tokens(10), request({}, 60).params);
  for (const PauseMode mode : {PauseMode::kKeep, PauseMode::kWait, PauseMode::kAbort}) {
    SCOPED_TRACE(static_cast<int>(mode));
    auto running = served.engine->submit(request(tokens(10), 60), nullptr);
    ASSERT_TRUE(running.ok());
    ASSERT_TRUE(eventually([&] { return served.engine->stats().num_requests_running == 1; }));
    EXPECT_TRUE(test::pause(*served.engine, mode, mode != PauseMode::kKeep).ok());
    EXPECT_TRUE(served.engine->paused());
    auto late = served.engine->submit(request(tokens(10), 60), nullptr);
    ASSERT_TRUE(late.ok());
    const uint64_t steps = served.engine->stats().steps;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(served.engine->stats().steps, steps);
    EXPECT_TRUE(served.engine->resume().ok());
    const Answer first = read_all(**running);
    if (mode == PauseMode::kAbort) {
      EXPECT_EQ(first.finish_reason, FinishReason::kAbort);
      EXPECT_TRUE(first.status.ok());
    } else {
      EXPECT_EQ(first.token_ids, expected);
    }
    EXPECT_EQ(read_all(**late).token_ids, expected);
  }
  EXPECT_EQ(test::pause(*served.engine, PauseMode::kKeep, true).code(),
            StatusCode::kInvalidArgument);
}

TEST(AsyncEngine, WaitingToPauseHoldsWhatComes) {
  auto options = fast_rig();
  options.fake.step_us = 1000;
  Served served = serve(options);
  auto running = served.engine->submit(request(tokens(10), 100), nullptr);
  ASSERT_TRUE(running.ok());
  // The test does not wait for the running requests to end.
  std::promise<Status> paused;
  served.engine->pause(PauseMode::kWait, true, [&](const Status& s) { paused.set_value(s); });
  (void)
      served.engine->kv_grid();  // handled after the calls before it: the engine knows of the pause
  EXPECT_FALSE(served.engine->paused());
  auto late = served.engine->submit(request(tokens(10), 5), nullptr);
  auto gone = served.engine->submit(request(tokens(10), 5), nullptr);
  ASSERT_TRUE(late.ok() && gone.ok());
  gone->reset();  // its reader leaves before the engine takes it
  EXPECT_EQ(read_all(**running).token_ids.size(), 100u);
  EXPECT_TRUE(paused.get_future().get().ok());
  EXPECT_FALSE((*late)->try_pop());
  served.engine->drain(5'000'000);  // resumes, so that waiting requests are answered
  EXPECT_EQ(read_all(**late).token_ids.size(), 5u);
  EXPECT_EQ(test::pause(*served.engine, PauseMode::kAbort, true).code(), StatusCode::kUnavailable);
}

TEST(AsyncEngine, SleepsAndAbortsByName) {
  auto options = fast_rig();
  options.fake.step_us = 1000;
  Served served = serve(options);
  auto named = request(tokens(10), 100);
  named.external_id = "mine";
  auto stream = served.engine->submit(std::move(named), nullptr);
  ASSERT_TRUE(stream.ok());
  const std::vector<std::string> others = {"other"}, mine = {"mine"};
  EXPECT_EQ(*served.engine->abort_requests(others), 0);
  EXPECT_EQ(*served.engine->abort_requests(mine), 1);
  EXPECT_EQ(read_all(**stream).finish_reason, FinishReason::kAbort);
  EXPECT_EQ(*served.engine->abort_requests({}), 0);
  EXPECT_EQ(test::sleep(*served.engine, 3, PauseMode::kAbort).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(test::sleep(*served.engine, 1, PauseMode::kKeep).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(test::sleep(*served.engine, 2, PauseMode::kAbort).ok());
  EXPECT_EQ(served.engine->stats().sleep_level, 2);
  EXPECT_EQ(served.engine->stats().kv_blocks_cached, 0);
  EXPECT_TRUE(served.engine->wake_up().ok());
  EXPECT_EQ(served.engine->stats().sleep_level, 0);
}

TEST(AsyncEngine, RefusalsAreCountedByTheLimitThatWasReached) {
  auto options = fast_rig();
  options.fake.step_us = 5000;
  options.engine.scheduler.max_num_queued_reqs = 2;
  Served served = serve(options);
  EXPECT_TRUE(test::pause(*served.engine, PauseMode::kKeep, false).ok());
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (int i = 0; i < 5; ++i) {
    auto stream = served.engine->submit(request(tokens(10), 2), nullptr);
    if (stream.ok()) streams.push_back(std::move(stream).value());
  }
  EXPECT_EQ(streams.size(), 2u);
  EXPECT_EQ(served.engine->stats().rejected_max_num_queued_reqs, 3u);
  EXPECT_EQ(served.engine->stats().rejected_max_num_queued_tokens, 0u);
  EXPECT_TRUE(served.engine->resume().ok());
}

}  // namespace
}  // namespace quire
