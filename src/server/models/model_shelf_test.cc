#include "server/models/model_shelf.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "server/testing/scripted_engine.h"
#include "server/testing/server_fixture.h"
#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

namespace fs = std::filesystem;

// The tests have a folder of models whose files have a size but no content, and a loader that
// counts.
class ShelfTest : public ::testing::Test {
 protected:
  ~ShelfTest() override {
    if (shelf) shelf->stop();
  }

  void add_model(const std::string& name, size_t bytes = 100) {
    fs::create_directories(dir_ / name);
    std::ofstream(dir_ / name / "config.json") << "{}";
    std::ofstream(dir_ / name / "model.safetensors") << std::string(bytes, 'x');
  }

  Result<ShelfModel> load(const FoundModel& found, const std::vector<std::string>& names) {
    ++num_loads;
    while (is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(load_ms));
    if (found.name.starts_with("broken")) return data_loss("model.safetensors: it is cut short");
    auto engine = std::make_shared<ScriptedEngine>(ScriptedEngine::Options{.script = say("hi")});
    ServedModel model = scripted_model(engine);
    model.names = names;
    const int32_t now = ++num_alive;
    most_alive = std::max(most_alive.load(), now);
    model.engine = {engine.get(), [this, engine](auto*) { --num_alive; }};
    return ShelfModel{HostedModel::create(std::move(model), {}), found.file_bytes};
  }

  void open(ShelfOptions options) {
    options.directory = dir_.string();
    options.load = [this](const FoundModel& found, const std::vector<std::string>& names, int64_t,
                          const std::function<void(double)>&) { return load(found, names); };
    auto created = ModelShelf::create(std::move(options));
    ASSERT_TRUE(created.ok()) << created.status().message();
    shelf = *created;
  }

  ApiResult<ModelUse> acquire(const std::string& name) {
    auto promise = std::make_shared<std::promise<ApiResult<ModelUse>>>();
    auto future = promise->get_future();
    shelf->acquire(name,
                   [promise](ApiResult<ModelUse> use) { promise->set_value(std::move(use)); });
    return future.get();
  }
  ModelState state_of(const std::string& name) {
    for (const ModelStatus& status : shelf->list()) {
      if (status.name == name) return status.state;
    }
    return ModelState::kFailed;
  }

  const test::TempFolder dir_;
  std::atomic<int32_t> num_loads = 0, num_alive = 0, most_alive = 0, load_ms = 0;
  std::atomic<bool> is_held = false;
  std::shared_ptr<ModelShelf> shelf;
};

TEST_F(ShelfTest, AModelIsLoadedOnceWhenItIsAskedFor) {
  add_model("a");
  add_model("b");
  open({.limits = {.max_loaded = 2}});
  EXPECT_EQ(num_loads, 0);
  EXPECT_EQ(state_of("a"), ModelState::kUnloaded);
  for (int i = 0; i < 3; ++i) {
    const auto use = acquire("a");
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(use.value()->model.names.front(), "a");
  }
  EXPECT_EQ(num_loads, 1);
  EXPECT_EQ(state_of("a"), ModelState::kLoaded);
  EXPECT_EQ(acquire("c").error().status, 404);
  EXPECT_NE(acquire("c").error().message.find("there are a, b"), std::string::npos);
}

TEST_F(ShelfTest, TheLeastRecentlyUsedIdleModelGivesWay) {
  for (const char* name : {"a", "b", "c"}) add_model(name);
  open({.limits = {.max_loaded = 2}});
  ASSERT_TRUE(acquire("a").ok());
  ASSERT_TRUE(acquire("b").ok());
  ASSERT_TRUE(acquire("a").ok());
  ASSERT_TRUE(acquire("c").ok());
  EXPECT_EQ(state_of("b"), ModelState::kUnloaded);
  EXPECT_EQ(state_of("a"), ModelState::kLoaded);
  EXPECT_LE(most_alive, 2);
}

TEST_F(ShelfTest, AModelInUseIsWaitedForAndNeverTakenAway) {
  add_model("a");
  add_model("b");
  open({});
  auto use = std::make_unique<ApiResult<ModelUse>>(acquire("a"));
  std::promise<void> done;
  shelf->acquire("b", [&](ApiResult<ModelUse> b) {
    EXPECT_TRUE(b.ok());
    EXPECT_EQ(use, nullptr);
    done.set_value();
  });
  ASSERT_TRUE(eventually([&] { return state_of("a") == ModelState::kUnloading; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(num_loads, 1);
  auto held = std::exchange(use, nullptr);
  held.reset();
  done.get_future().wait();
  EXPECT_EQ(most_alive, 1);
}

TEST_F(ShelfTest, AWaitHasAnEndAndTheModelInUseStays) {
  add_model("a");
  add_model("b");
  open({.load_timeout_us = 50'000});
  const auto use = acquire("a");
  const auto refused = acquire("b");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, 503);
  EXPECT_EQ(refused.error().retry_after_s, 10);
  EXPECT_TRUE(eventually([&] { return state_of("a") == ModelState::kLoaded; }));
  EXPECT_TRUE(acquire("a").ok());
  EXPECT_EQ(num_loads, 1);
}

TEST_F(ShelfTest, TooManyWaitersAreRefused) {
  add_model("a");
  open({.max_waiting = 2});
  is_held = true;
  std::atomic<int> num_served = 0;
  for (int i = 0; i < 2; ++i) {
    shelf->acquire("a", [&](ApiResult<ModelUse> use) { num_served += use.ok() ? 1 : 100; });
  }
  EXPECT_EQ(acquire("a").error().status, 503);
  is_held = false;
  EXPECT_TRUE(eventually([&] { return num_served == 2; }));
}

TEST_F(ShelfTest, ABrokenModelHarmsNoOther) {
  add_model("a");
  add_model("broken");
  open({.limits = {.max_loaded = 2}});
  const auto use = acquire("a");
  const auto refused = acquire("broken");
  EXPECT_EQ(refused.error().status, 500);
  EXPECT_NE(refused.error().message.find("cut short"), std::string::npos);
  EXPECT_EQ(state_of("broken"), ModelState::kFailed);
  EXPECT_EQ(acquire("broken").error().status, 500);
  EXPECT_EQ(num_loads, 2) << "it is not tried again at once";
  EXPECT_TRUE(acquire("a").ok());
  EXPECT_TRUE(shelf->healthy());
}

TEST_F(ShelfTest, WhatIsTooLargeIsRefusedAndTakesNobodysPlace) {
  add_model("a");
  add_model("large", 10'000);
  open({.limits = {.max_loaded = 2, .max_bytes = 5'000}});
  ASSERT_TRUE(acquire("a").ok());
  const auto refused = acquire("large");
  EXPECT_EQ(refused.error().status, 500);
  EXPECT_NE(refused.error().message.find("--max-models-memory"), std::string::npos);
  EXPECT_EQ(state_of("a"), ModelState::kLoaded);
}

TEST_F(ShelfTest, AModelLeavesWhenItsTimeIsOver) {
  add_model("a");
  open({.keep_alive_us = 20'000});
  ASSERT_TRUE(acquire("a").ok());
  EXPECT_TRUE(eventually([&] { return state_of("a") == ModelState::kUnloaded; }));
  EXPECT_EQ(num_alive, 0);
  {
    const auto use = acquire("a");
    shelf->keep("a", std::nullopt);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(state_of("a"), ModelState::kLoaded);
  EXPECT_EQ(shelf->unload("a"), std::nullopt);
  EXPECT_TRUE(eventually([&] { return num_alive == 0; }));
  EXPECT_EQ(shelf->unload("none")->status, 404);
}

TEST_F(ShelfTest, AliasesNameTheSameModel) {
  add_model("a");
  open({.aliases = {{"gpt-4o", "a"}}});
  ASSERT_TRUE(acquire("gpt-4o").ok());
  EXPECT_EQ(acquire("a").value()->model.names, (std::vector<std::string>{"a", "gpt-4o"}));
  EXPECT_EQ(num_loads, 1);
  ShelfOptions wrong{.directory = dir_.string(), .aliases = {{"x", "none"}}};
  EXPECT_EQ(ModelShelf::create(wrong).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ShelfTest, TheFolderIsReadAgain) {
  add_model("a");
  open({.limits = {.max_loaded = 2}});
  ASSERT_TRUE(acquire("a").ok());
  add_model("b");
  EXPECT_EQ(acquire("b").error().status, 404);
  ASSERT_TRUE(shelf->reload().ok());
  EXPECT_TRUE(acquire("b").ok());
  fs::remove_all(dir_ / "a");
  ASSERT_TRUE(shelf->reload().ok());
  EXPECT_TRUE(eventually([&] { return shelf->list().size() == 1; }));
  EXPECT_EQ(acquire("a").error().status, 404);
}

TEST_F(ShelfTest, ADrainRefusesThoseWhoWait) {
  add_model("a");
  open({});
  is_held = true;
  std::promise<int> status;
  shelf->acquire("a", [&](ApiResult<ModelUse> use) { status.set_value(use.error().status); });
  ASSERT_TRUE(eventually([&] { return num_loads == 1; }));
  shelf->drain(1'000);
  EXPECT_EQ(status.get_future().get(), 503);
  is_held = false;
}

// There are many threads and more models than places. Every request must get its model or an error
// that says why, the limits must hold, and nothing may be left.
TEST_F(ShelfTest, ACrowdIsServedAndNothingIsLost) {
  for (const char* name : {"a", "b", "c", "d", "broken"}) add_model(name);
  load_ms = 1;
  open({.limits = {.max_loaded = 2}, .retry_failed_us = 0});
  std::atomic<int> num_ok = 0, num_broken = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 40; ++i) {
        const char* const names[] = {"a", "b", "c", "d", "broken"};
        const std::string name = names[random() % 5];
        const auto use = acquire(name);
        if (name == "broken") {
          num_broken += !use.ok() && use.error().status == 500;
        } else {
          num_ok += use.ok() && use.value()->model.names.front() == name;
        }
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_ok + num_broken, 8 * 40);
  EXPECT_LE(most_alive, 2);
  shelf->stop();
  EXPECT_EQ(num_alive, 0);
}

}  // namespace
}  // namespace quire::server
