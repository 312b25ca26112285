#include "server/models/shelf_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace quire::server {
namespace {

using Names = std::vector<std::string>;

TEST(ShelfBook, IdleModelsGoBeforeThoseInUseAndTheLeastRecentlyUsedFirst) {
  ShelfBook book({.max_loaded = 3});
  book.add("a", 10, 1, {});
  book.add("b", 10, 2, {});
  EXPECT_EQ(book.victims_for(10), Names());
  book.add("c", 10, 3, {});
  EXPECT_EQ(book.victims_for(10), Names{"a"});
  book.begin_use("a", 4);
  EXPECT_EQ(book.victims_for(10), Names{"b"});
  book.begin_use("b", 5);
  book.begin_use("c", 6);
  EXPECT_EQ(book.victims_for(10), Names{"a"});
  book.end_use("a", 7);
  EXPECT_EQ(book.most_recent(), "a");
}

TEST(ShelfBook, BytesBoundToo) {
  ShelfBook book({.max_loaded = 8, .max_bytes = 100});
  book.add("a", 40, 1, {});
  book.add("b", 50, 2, {});
  EXPECT_EQ(book.victims_for(10), Names());
  EXPECT_EQ(book.victims_for(50), Names{"a"});
  EXPECT_EQ(book.victims_for(70), (Names{"a", "b"}));
  EXPECT_EQ(book.victims_for(100), (Names{"a", "b"}));
  EXPECT_EQ(book.victims_for(101), std::nullopt);
}

TEST(ShelfBook, TimeRunsWhileNobodyUsesAModel) {
  ShelfBook book({.max_loaded = 2});
  book.add("a", 1, 100, 50);
  book.add("b", 1, 100, {});
  EXPECT_EQ(book.next_expiry_us(), 150);
  EXPECT_EQ(book.expired(149), Names());
  EXPECT_EQ(book.expired(150), Names{"a"});
  book.begin_use("a", 140);
  EXPECT_EQ(book.expired(1000), Names());
  EXPECT_EQ(book.next_expiry_us(), std::nullopt);
  book.end_use("a", 200);
  EXPECT_EQ(book.next_expiry_us(), 250);
}

// The naive model takes the smallest prefix of the wanted order whose removal makes room.
TEST(ShelfBook, RandomUseKeepsToTheBoundsAndTakesNoMoreThanItMust) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    const ShelfLimits limits{static_cast<int32_t>(1 + below(4)), below(2) * (50 + below(100))};
    ShelfBook book(limits);
    struct Naive {
      int64_t bytes, uses, last_use;
    };
    std::map<std::string, Naive> naive;
    for (int64_t now = 1; now < 200; ++now) {
      const std::string name(1, static_cast<char>('a' + below(6)));
      if (!naive.contains(name)) {
        const int64_t bytes = 1 + below(120);
        const auto victims = book.victims_for(bytes);
        ASSERT_EQ(victims.has_value(), limits.max_bytes == 0 || bytes <= limits.max_bytes);
        if (!victims) continue;
        std::map<std::string, Naive> left = naive;
        const auto fits = [&] {
          int64_t sum = bytes;
          for (const auto& [n, model] : left) sum += model.bytes;
          return std::ssize(left) < limits.max_loaded &&
                 (limits.max_bytes == 0 || sum <= limits.max_bytes);
        };
        for (const std::string& victim : *victims) {
          ASSERT_FALSE(fits()) << "one victim too many";
          const auto first =
              std::min_element(left.begin(), left.end(), [](const auto& a, const auto& b) {
                return std::pair(a.second.uses > 0, a.second.last_use) <
                       std::pair(b.second.uses > 0, b.second.last_use);
              });
          ASSERT_EQ(victim, first->first);
          left.erase(first);
        }
        ASSERT_TRUE(fits());
        const bool all_idle = std::all_of(victims->begin(), victims->end(),
                                          [&](const auto& v) { return naive.at(v).uses == 0; });
        if (!all_idle) continue;
        for (const std::string& victim : *victims) book.erase(victim);
        book.add(name, bytes, now, {});
        left[name] = {bytes, 0, now};
        naive = left;
      } else if (naive.at(name).uses > 0 && below(2) == 0) {
        book.end_use(name, now);
        naive.at(name) = {naive.at(name).bytes, naive.at(name).uses - 1, now};
      } else {
        book.begin_use(name, now);
        naive.at(name) = {naive.at(name).bytes, naive.at(name).uses + 1, now};
      }
      int64_t sum = 0;
      for (const auto& [n, model] : naive) sum += model.bytes;
      ASSERT_EQ(book.bytes_loaded(), sum);
      ASSERT_EQ(book.num_loaded(), naive.size());
      ASSERT_LE(std::ssize(naive), limits.max_loaded);
      if (limits.max_bytes > 0) {
        ASSERT_LE(sum, limits.max_bytes);
      }
    }
  }
}

}  // namespace
}  // namespace quire::server
