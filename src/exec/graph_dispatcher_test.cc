#include "exec/graph_dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::ElementsAre;

TEST(GraphDispatcher, BucketsEndWithTheLargestBatch) {
  const GraphDispatcher dispatcher(30);
  EXPECT_THAT(dispatcher.buckets(), ElementsAre(1, 2, 4, 8, 16, 24, 30));
  EXPECT_TRUE(GraphDispatcher(0).buckets().empty());
  EXPECT_THAT(GraphDispatcher(1).buckets(), ElementsAre(1));
}

TEST(GraphDispatcher, PaddingOfLargeBatchesIsBounded) {
  const GraphDispatcher dispatcher(1024);
  for (int32_t reqs = 65; reqs <= 1024; ++reqs) {
    const auto bucket =
        dispatcher.bucket_of({.num_reqs = reqs, .num_tokens = reqs, .max_query_len = 1});
    ASSERT_TRUE(bucket.has_value());
    const int32_t size = dispatcher.buckets()[*bucket];
    EXPECT_GE(size, reqs);
    EXPECT_LE(size - reqs, size / 4);
  }
}

TEST(GraphDispatcher, CountsWhatRan) {
  GraphDispatcher dispatcher(8);
  const auto run = [&](const StepSize& step, bool is_captured) {
    const std::optional<size_t> bucket = dispatcher.bucket_of(step);
    dispatcher.count(step, bucket, is_captured);
    return bucket;
  };
  const StepSize three{.num_reqs = 3, .num_tokens = 3, .max_query_len = 1};
  EXPECT_EQ(run(three, false), 2u);
  EXPECT_EQ(run(three, true), 2u);
  EXPECT_FALSE(run({.num_reqs = 3, .num_tokens = 9, .max_query_len = 7}, false));
  EXPECT_FALSE(run({.num_reqs = 9, .num_tokens = 9, .max_query_len = 1}, false));
  const GraphStats& stats = dispatcher.stats();
  EXPECT_THAT(stats.launches, ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(stats.tokens, 3);
  EXPECT_EQ(stats.padding_tokens, 1);
  EXPECT_EQ(stats.eager_prefill, 1);
  EXPECT_EQ(stats.eager_too_large, 1);
  EXPECT_EQ(stats.eager_uncaptured, 1);
}

}  // namespace
}  // namespace quire
