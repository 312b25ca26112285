// These tests compare a key's limits with a model that advances microsecond by microsecond.
#include "server/keys/rate_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quire::server {
namespace {

struct NaiveBucket {
  int64_t per_minute, level;
  explicit NaiveBucket(int64_t n) : per_minute(n), level(n * 60'000'000) {}
  void tick() { level = std::min(level + per_minute, per_minute * 60'000'000); }
};

TEST(KeyLimiter, AllowsWhatANaiveModelAllows) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const auto up_to = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    // The limits are so high that microseconds matter.
    const int64_t per_minute = 1 + up_to(40), tokens_per_minute = 1 + up_to(2'000);
    const int64_t speed = 1'000'000;  // a step of time is 0 to 7 of these
    KeyLimits limits{.requests_per_minute = per_minute,
                     .tokens_per_minute = tokens_per_minute,
                     .max_concurrent = 1 + up_to(5)};
    int64_t now_us = 1'000 * round;
    KeyLimiter limiter(limits, now_us);
    NaiveBucket requests(per_minute), tokens(tokens_per_minute);
    int64_t num_running = 0;
    for (int step = 0; step < 300; ++step) {
      const int64_t steps = up_to(8);
      now_us += steps * speed;
      // The model adds the time in thousands of microseconds and applies the limit after each
      // addition.
      for (int64_t i = 0; i < steps; ++i) {
        for (int64_t us = 0; us < speed; us += 1'000) {
          for (NaiveBucket* bucket : {&requests, &tokens}) {
            bucket->level = std::min(bucket->level + 1'000 * bucket->per_minute,
                                     bucket->per_minute * 60'000'000);
          }
        }
      }
      if (up_to(3) != 0) {
        const bool allowed = requests.level >= 60'000'000 && tokens.level >= 60'000'000 &&
                             num_running < *limits.max_concurrent;
        const auto refusal = limiter.enter(now_us);
        ASSERT_EQ(!refusal, allowed) << "round " << round << " step " << step;
        if (allowed) {
          requests.level -= 60'000'000;
          ++num_running;
        } else if (refusal->limit != KeyLimit::kConcurrency) {
          // After the wait the request is allowed, and not a microsecond earlier.
          const RateBucket& short_of =
              refusal->limit == KeyLimit::kRequests ? *limiter.requests() : *limiter.tokens();
          RateBucket later = short_of, early = short_of;
          later.refill(now_us + refusal->wait_us);
          early.refill(now_us + refusal->wait_us - 1);
          ASSERT_TRUE(later.has_one());
          ASSERT_FALSE(early.has_one());
        }
        ASSERT_EQ(limiter.requests()->remaining(),
                  std::max<int64_t>(requests.level, 0) / 60'000'000);
      } else if (num_running > 0) {
        const int64_t used = up_to(tokens_per_minute);
        limiter.charge_tokens(used, now_us);
        limiter.leave();
        tokens.level -= used * 60'000'000;
        --num_running;
        ASSERT_EQ(limiter.tokens()->remaining(), std::max<int64_t>(tokens.level, 0) / 60'000'000);
      }
      ASSERT_EQ(limiter.num_running(), num_running);
    }
  }
}

TEST(RateBucket, EveryMicrosecondCounts) {
  NaiveBucket naive(59);
  RateBucket bucket(59, 0);
  bucket.take(3);
  naive.level -= 3 * 60'000'000;
  std::mt19937 random(1);
  for (int64_t now_us = 0, seen_us = 0; now_us < 4'000'000; ++now_us, naive.tick()) {
    if (random() % 1'000 != 0) continue;
    bucket.refill(now_us);
    ASSERT_GE(now_us, seen_us);
    seen_us = now_us;
    ASSERT_EQ(bucket.remaining(), naive.level / 60'000'000) << now_us;
    const int64_t lacking = 59 * 60'000'000ll - naive.level;
    ASSERT_EQ(bucket.us_to_full(), (lacking + 58) / 59) << now_us;
  }
}

TEST(RateBucket, LimitsOfAnySizeAndTimesThatGoBack) {
  RateBucket most(1'000'000'000, 0);
  // The debt is large, but limited.
  for (int i = 0; i < 2; ++i) most.take(4'000'000'000'000'000'000);
  most.refill(1'000);
  EXPECT_EQ(most.remaining(), 0);
  EXPECT_GT(most.us_to_one(), 0);
  most.refill(INT64_MAX / 2);
  EXPECT_EQ(most.remaining(), 1'000'000'000);
  RateBucket bucket(60, 5'000'000);
  bucket.take(60);
  bucket.refill(0);
  EXPECT_EQ(bucket.remaining(), 0);
  bucket.refill(6'000'000);
  EXPECT_EQ(bucket.remaining(), 1);
}

TEST(KeyLimiter, NewLimitsKeepWhatWasUsed) {
  KeyLimiter limiter({.requests_per_minute = 10}, 0);
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(limiter.enter(0));
  limiter.set_limits({.requests_per_minute = 9, .max_concurrent = 100}, 0);
  EXPECT_EQ(limiter.requests()->remaining(), 1);
  EXPECT_FALSE(limiter.enter(0));
  EXPECT_EQ(limiter.enter(0)->limit, KeyLimit::kRequests);
  limiter.set_limits({.max_concurrent = 9}, 0);
  EXPECT_EQ(limiter.enter(0)->limit, KeyLimit::kConcurrency);
  limiter.leave();
  EXPECT_FALSE(limiter.enter(0));
  EXPECT_EQ(limiter.tokens(), nullptr);
}

}  // namespace
}  // namespace quire::server
