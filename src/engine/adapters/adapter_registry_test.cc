#include "engine/adapters/adapter_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <thread>

namespace quire {
namespace {

// Reads an adapter whose content is its folder's name; an empty name is not found.
Result<std::shared_ptr<const Adapter>> read(const std::string& name, const std::string& path) {
  if (path.empty()) return not_found("{}: no such folder", name);
  auto adapter = std::make_shared<Adapter>();
  adapter->name = name;
  adapter->content_key = path;
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

TEST(AdapterRegistry, LoadsReplacesAndUnloads) {
  AdapterRegistry adapters(read, 2);
  EXPECT_EQ(adapters.find("sql"), nullptr);
  ASSERT_TRUE(adapters.load({"sql", "/a"}).ok());
  const auto first = adapters.find("sql");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(adapters.load({"sql", "/b"}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(adapters.find("sql"), first);
  ASSERT_TRUE(adapters.load({"sql", "/b"}, IfLoaded::kReplace).ok());
  EXPECT_EQ(adapters.find("sql")->content_key, "/b");
  EXPECT_EQ(first->content_key, "/a");  // users of the old adapter keep it
  EXPECT_EQ(adapters.list().front().source.path, "/b");
  EXPECT_EQ(adapters.unload("chat").code(), StatusCode::kNotFound);
  EXPECT_TRUE(adapters.unload("sql").ok());
  EXPECT_EQ(adapters.unload("sql").code(), StatusCode::kNotFound);
  EXPECT_EQ(adapters.num_loaded(), 0);
}

TEST(AdapterRegistry, KeepsWhatWasThereWhenReadingFails) {
  AdapterRegistry adapters(read, 2);
  ASSERT_TRUE(adapters.load({"sql", "/a"}).ok());
  EXPECT_EQ(adapters.load({"sql", ""}, IfLoaded::kReplace).code(), StatusCode::kNotFound);
  EXPECT_EQ(adapters.find("sql")->content_key, "/a");
  EXPECT_EQ(adapters.load({"chat", ""}).code(), StatusCode::kNotFound);
  EXPECT_EQ(adapters.num_loaded(), 1);
}

TEST(AdapterRegistry, RefusesNamesThatCannotBePrinted) {
  AdapterRegistry adapters(read, 2);
  for (const std::string& name :
       {std::string(), std::string(257, 'a'), std::string("a,b"), std::string("a\nb"),
        std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_EQ(adapters.load({name, "/a"}).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(adapters.load({"Größe 7B/v1.2", "/a"}).ok());
}

TEST(AdapterRegistry, SaysWhichNameItRefuses) {
  EXPECT_TRUE(check_adapter_name("a,\nb").message().ends_with(", got 'a,?b'"));
  EXPECT_TRUE(check_adapter_name("\xff").message().ends_with(", got other bytes"));
  EXPECT_TRUE(check_adapter_name(std::string(257, 'a')).message().ends_with(", got 257 bytes"));
}

struct WatchingAdapter final : Adapter {
  explicit WatchingAdapter(std::function<void()> on_end) : on_end(std::move(on_end)) {}
  ~WatchingAdapter() override { on_end(); }
  const std::function<void()> on_end;
};

// Freeing an adapter's memory may take long; names can be looked up meanwhile.
TEST(AdapterRegistry, AdaptersEndWithoutTheLock) {
  int num_ended = 0;
  AdapterRegistry* registry = nullptr;
  AdapterRegistry adapters(
      [&](const std::string&, const std::string&) -> Result<std::shared_ptr<const Adapter>> {
        return std::shared_ptr<const Adapter>(std::make_shared<WatchingAdapter>([&] {
          EXPECT_EQ(registry->find("none"), nullptr);
          ++num_ended;
        }));
      },
      2);
  registry = &adapters;
  ASSERT_TRUE(adapters.load({"sql", "/a"}).ok());
  ASSERT_TRUE(adapters.load({"sql", "/b"}, IfLoaded::kReplace).ok());
  EXPECT_EQ(num_ended, 1);
  ASSERT_TRUE(adapters.unload("sql").ok());
  EXPECT_EQ(num_ended, 2);
}

// Compares with a naive model, which is a map of names.
TEST(AdapterRegistry, IsANaiveMap) {
  std::mt19937 random(7);
  AdapterRegistry adapters(read, 4);
  std::map<std::string, std::string> naive;
  for (int step = 0; step < 4000; ++step) {
    const std::string name(1, static_cast<char>('a' + random() % 7));
    const std::string path = random() % 5 == 0 ? "" : "/" + std::to_string(step);
    switch (random() % 3) {
      case 0: {
        const bool fits = naive.count(name) == 0 && naive.size() < 4 && !path.empty();
        ASSERT_EQ(adapters.load({name, path}).ok(), fits);
        if (fits) naive[name] = path;
        break;
      }
      case 1: {
        const bool fits = (naive.count(name) > 0 || naive.size() < 4) && !path.empty();
        ASSERT_EQ(adapters.load({name, path}, IfLoaded::kReplace).ok(), fits);
        if (fits) naive[name] = path;
        break;
      }
      default:
        ASSERT_EQ(adapters.unload(name).ok(), naive.erase(name) > 0);
    }
    ASSERT_EQ(adapters.num_loaded(), std::ssize(naive));
    for (const LoadedAdapterInfo& loaded : adapters.list())
      ASSERT_EQ(naive.at(loaded.source.name), loaded.adapter->content_key);
  }
}

// While files are read, a name is found with either the old or the new version.
TEST(AdapterRegistry, ManyThreadsAtOnce) {
  std::atomic<int> num_reading{0};
  const auto read_alone = [&](const std::string& name, const std::string& path) {
    EXPECT_EQ(num_reading.fetch_add(1), 0) << "two are read at once";
    std::this_thread::yield();
    num_reading.fetch_sub(1);
    return read(name, path);
  };
  AdapterRegistry adapters(read_alone, 3);
  ASSERT_TRUE(adapters.load({"stays", "/0"}).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string own = "of " + std::to_string(t);
      for (int i = 0; i < 500; ++i) {
        EXPECT_TRUE(adapters.load({"stays", "/" + std::to_string(i)}, IfLoaded::kReplace).ok());
        EXPECT_NE(adapters.find("stays"), nullptr);
        const bool had_room = adapters.load({own, "/x"}).ok();
        EXPECT_EQ(adapters.unload(own).ok(), had_room);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(adapters.num_loaded(), 1);
}

}  // namespace
}  // namespace quire
