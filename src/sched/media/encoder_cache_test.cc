#include "sched/media/encoder_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace quire {
namespace {

std::shared_ptr<const MediaItem> make_item(const std::string& key, int32_t num_embeddings) {
  auto item = std::make_shared<MediaItem>();
  item->key = key;
  item->num_embeddings = num_embeddings;
  return item;
}

// Keeps the items in the order in which they were last used, with reference counts.
class NaiveCache {
 public:
  explicit NaiveCache(int64_t capacity) : capacity_(capacity) {}

  void begin_step() { left_ = capacity_; }
  bool acquire(const MediaItem& item) {
    auto it = find(item.key);
    if (it == items_.end()) {
      int64_t referenced = 0;
      for (const Item& one : items_) referenced += one.refs > 0 ? one.size : 0;
      if (item.num_embeddings > left_ || referenced + item.num_embeddings > capacity_) return false;
      while (total() + item.num_embeddings > capacity_) {
        items_.erase(std::find_if(items_.begin(), items_.end(),
                                  [](const Item& one) { return one.refs == 0; }));
      }
      left_ -= item.num_embeddings;
      items_.push_back({item.key, item.num_embeddings, 0});
      it = items_.end() - 1;
    }
    ++it->refs;
    return true;
  }
  void release(const std::string& key, bool keep) {
    const auto it = find(key);
    if (--it->refs > 0) return;
    Item item = *it;
    items_.erase(it);
    if (keep) items_.push_back(item);
  }
  std::set<std::string> keys() const {
    std::set<std::string> keys;
    for (const Item& item : items_) keys.insert(item.key);
    return keys;
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const Item& item : items_) sum += item.size;
    return sum;
  }

 private:
  struct Item {
    std::string key;
    int64_t size;
    int32_t refs;
  };
  std::vector<Item>::iterator find(const std::string& key) {
    return std::find_if(items_.begin(), items_.end(),
                        [&](const Item& item) { return item.key == key; });
  }
  int64_t capacity_;
  int64_t left_ = 0;
  std::vector<Item> items_;
};

// The executor must hold after each plan what the naive model holds.
TEST(EncoderCache, HoldsWhatANaiveModelHolds) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto capacity = static_cast<int64_t>(10 + random() % 30);
    EncoderCache cache(capacity);
    NaiveCache naive(capacity);
    std::vector<std::shared_ptr<const MediaItem>> items;
    for (int32_t i = 0; i < 8; ++i) items.push_back(make_item(std::to_string(i), 1 + i));
    std::multiset<std::string> references;
    std::set<std::string> held;  // by the executor
    for (int step = 0; step < 500; ++step) {
      if (random() % 3 == 0) {
        StepPlan plan;
        cache.take(plan);
        for (const std::string& key : plan.freed_media) ASSERT_EQ(held.erase(key), 1u);
        for (const auto& item : plan.media_inputs) ASSERT_TRUE(held.insert(item->key).second);
        ASSERT_EQ(held, naive.keys());
        cache.begin_step();
        naive.begin_step();
      }
      const auto& item = items[random() % items.size()];
      if (random() % 2 == 0) {
        const bool taken = cache.acquire(item);
        ASSERT_EQ(taken, naive.acquire(*item));
        if (taken) references.insert(item->key);
      } else if (const auto it = references.find(item->key); it != references.end()) {
        const bool keep = random() % 4 > 0;
        cache.release(item->key, keep);
        naive.release(item->key, keep);
        references.erase(it);
      }
      ASSERT_EQ(cache.stats().num_embeddings, naive.total());
      const Status status = cache.check();
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
}

TEST(EncoderCache, AStepMakesSoMuchOrOneItem) {
  EncoderCache cache(20, 5);
  cache.begin_step();
  EXPECT_TRUE(cache.acquire(make_item("large", 8))) << "by itself";
  EXPECT_FALSE(cache.acquire(make_item("a", 1)));
  EXPECT_TRUE(cache.acquire(make_item("large", 8))) << "it is there";
  cache.begin_step();
  EXPECT_TRUE(cache.acquire(make_item("a", 3)));
  EXPECT_FALSE(cache.acquire(make_item("b", 3)));
  EXPECT_TRUE(cache.acquire(make_item("c", 2)));
}

TEST(EncoderCache, AnItemThatWasNeverEncodedIsNotFreed) {
  EncoderCache cache(10);
  cache.begin_step();
  ASSERT_TRUE(cache.acquire(make_item("a", 4)));
  cache.release("a", false);
  StepPlan plan;
  cache.take(plan);
  EXPECT_TRUE(plan.freed_media.empty());
  EXPECT_TRUE(plan.media_inputs.empty());
  EXPECT_FALSE(cache.holds("a"));
}

}  // namespace
}  // namespace quire
