#include "exec/gpu/graphs/graph_dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GraphDispatcher, BucketsEndWithTheLargestBatch) {
  const GraphDispatcher dispatcher(GraphMode::kFull, 30, 60);
  EXPECT_THAT(dispatcher.buckets(GraphKind::kWhole), ElementsAre(1, 2, 4, 8, 16, 24, 30));
  EXPECT_THAT(dispatcher.buckets(GraphKind::kPieces), ElementsAre(8, 16, 24, 32, 40, 48, 56, 60));
  EXPECT_EQ(dispatcher.num_buckets(), 15u);
  EXPECT_THAT(GraphDispatcher().buckets(GraphKind::kWhole), IsEmpty());
  EXPECT_THAT(GraphDispatcher(GraphMode::kFull, 1, 1).buckets(GraphKind::kWhole), ElementsAre(1));
  EXPECT_THAT(GraphDispatcher(GraphMode::kFull, 1, 1).buckets(GraphKind::kPieces), ElementsAre(1));
  EXPECT_EQ(GraphDispatcher(GraphMode::kFull, 1, 100000).buckets(GraphKind::kPieces).back(),
            GraphDispatcher::kMaxPieceTokens);
}

TEST(GraphDispatcher, PaddingOfLargeBatchesIsBounded) {
  const GraphDispatcher dispatcher(GraphMode::kFull, 1024, 8192);
  for (int32_t size = 65; size <= 1024; ++size) {
    const auto whole =
        dispatcher.bucket_of({.num_reqs = size, .num_tokens = size, .max_query_len = 1});
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(whole->kind, GraphKind::kWhole);
    EXPECT_EQ(whole->size, dispatcher.buckets(GraphKind::kWhole)[whole->index]);
    EXPECT_GE(whole->size, size);
    EXPECT_LE(whole->size - size, whole->size / 4);
    const auto pieces =
        dispatcher.bucket_of({.num_reqs = 3, .num_tokens = size, .max_query_len = size - 2});
    ASSERT_EQ(pieces.has_value(), size <= GraphDispatcher::kMaxPieceTokens);
    if (!pieces) continue;
    EXPECT_EQ(pieces->kind, GraphKind::kPieces);
    EXPECT_GE(pieces->size, size);
    EXPECT_LE(pieces->size - size, pieces->size / 4);
  }
}

TEST(GraphDispatcher, ModesSayWhichStepsHaveGraphs) {
  const StepSize decode{.num_reqs = 3, .num_tokens = 3, .max_query_len = 1};
  const StepSize mixed{.num_reqs = 3, .num_tokens = 9, .max_query_len = 7};
  const GraphDispatcher none(GraphMode::kNone, 30, 60);
  EXPECT_EQ(none.num_buckets(), 0u);
  EXPECT_FALSE(none.bucket_of(decode) || none.bucket_of(mixed));
  const GraphDispatcher pieces(GraphMode::kPieces, 30, 60);
  EXPECT_EQ(pieces.bucket_of(decode), (GraphBucket{GraphKind::kPieces, 0, 8}));
  EXPECT_EQ(pieces.bucket_of(mixed), (GraphBucket{GraphKind::kPieces, 1, 16}));
  StepSize with = mixed;
  with.has_adapters = true;
  EXPECT_EQ(pieces.bucket_of(with), (GraphBucket{GraphKind::kPieces, 1, 16, true}));
  EXPECT_EQ(parse_graph_mode("none"), GraphMode::kNone);
  EXPECT_EQ(parse_graph_mode("piecewise"), GraphMode::kPieces);
  EXPECT_EQ(parse_graph_mode("full"), GraphMode::kFull);
  EXPECT_FALSE(parse_graph_mode("Full"));
}

// A whole graph is captured for a bounded total sequence length, not for the greatest possible one.
TEST(GraphDispatcher, RequestsThatSeeTooMuchTogetherHaveNoWholeGraph) {
  const GraphDispatcher dispatcher(GraphMode::kFull, 30, 60);
  StepSize step{.num_reqs = 3,
                .num_tokens = 3,
                .max_query_len = 1,
                .total_len = GraphDispatcher::kMaxTotalLen};
  EXPECT_EQ(dispatcher.bucket_of(step)->kind, GraphKind::kWhole);
  ++step.total_len;
  EXPECT_EQ(dispatcher.bucket_of(step)->kind, GraphKind::kPieces);
}

TEST(GraphDispatcher, CountsWhatRan) {
  GraphDispatcher dispatcher(GraphMode::kFull, 8, 16);
  const auto run = [&](const StepSize& step, bool is_captured) {
    const std::optional<GraphBucket> bucket = dispatcher.bucket_of(step);
    dispatcher.count(step, bucket, is_captured);
    return bucket;
  };
  const StepSize three{.num_reqs = 3, .num_tokens = 3, .max_query_len = 1};
  const GraphBucket four{GraphKind::kWhole, 2, 4};
  EXPECT_EQ(run(three, false), four);
  EXPECT_EQ(run(three, true), four);
  const StepSize mixed{.num_reqs = 3, .num_tokens = 9, .max_query_len = 7};
  EXPECT_EQ(run(mixed, true), (GraphBucket{GraphKind::kPieces, 1, 16}));
  EXPECT_FALSE(run({.num_reqs = 3, .num_tokens = 17, .max_query_len = 7}, false));
  EXPECT_FALSE(run({.num_reqs = 9, .num_tokens = 9, .max_query_len = 1}, false));
  const GraphStats& stats = dispatcher.stats();
  EXPECT_THAT(stats.launches, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(stats.piece_launches, ElementsAre(0, 1));
  EXPECT_EQ(stats.tokens, 12);
  EXPECT_EQ(stats.padding_tokens, 8);
  EXPECT_EQ(stats.eager_mixed, 1);
  EXPECT_EQ(stats.eager_too_large, 1);
  EXPECT_EQ(stats.eager_uncaptured, 1);
  EXPECT_EQ(stats.num_graph_steps(), 2);
  EXPECT_EQ(stats.num_eager_steps(), 3);
}

}  // namespace
}  // namespace quire
