#include <gtest/gtest.h>

#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::Rig;
using test::RigOptions;
using test::small_rig;
using test::tokens;

RigOptions pooling_rig() {
  RigOptions options = small_rig();
  options.fake.pooling = {.embedding_size = 8, .num_labels = 3};
  return options;
}

GenerationRequest pooled(std::vector<TokenId> prompt, PoolingParams params) {
  GenerationRequest r = request(std::move(prompt), 1);
  r.kind = RequestKind::kPool;
  r.pooling = std::make_shared<const PoolingParams>(params);
  return r;
}

TEST(PooledRequests, GiveOneRowHoweverTheyAreCut) {
  std::vector<float> first;
  for (const int32_t budget : {5, 64}) {
    RigOptions options = pooling_rig();
    options.engine.scheduler.max_num_batched_tokens = budget;
    Rig rig(options);
    ASSERT_TRUE(rig.submit(request(tokens(20, 3), 10)).ok());
    const Answer answer = rig.ask(pooled(tokens(40), {}));
    EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
    EXPECT_TRUE(answer.token_ids.empty());
    EXPECT_EQ(answer.pooled.num_rows(), 1);
    ASSERT_EQ(answer.pooled.num_columns, 8);
    if (first.empty()) first = answer.pooled.values;
    EXPECT_EQ(answer.pooled.values, first);
  }
}

TEST(PooledRequests, MayFillTheWholeContext) {
  Rig rig(pooling_rig());
  EXPECT_EQ(rig.ask(pooled(tokens(128), {})).pooled.num_rows(), 1);
  EXPECT_EQ(rig.submit(pooled(tokens(129), {})).status().code(), StatusCode::kInvalidArgument);
}

TEST(PooledRequests, ThatReadAllTokensTakeNothingFromThePrefixCache) {
  Rig rig(pooling_rig());
  rig.ask(pooled(tokens(40), {}));
  EXPECT_GT(rig.ask(pooled(tokens(40), {})).num_cached_tokens, 30);
  const Answer answer = rig.ask(pooled(tokens(40), {.task = PoolingTask::kTokenEmbed}));
  EXPECT_EQ(answer.num_cached_tokens, 0);
  EXPECT_EQ(answer.pooled.num_rows(), 40);
}

TEST(PooledRequests, OfModelsThatSeeForwardAreComputedInOneStep) {
  RigOptions options = pooling_rig();
  options.fake.pooling.is_bidirectional = true;
  options.engine.scheduler.max_num_batched_tokens = 128;
  Rig rig(options);
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(rig.submit(pooled(tokens(50), {})).ok());
  rig.run();
  for (const StepRecord& step : rig.engine().recent_steps()) {
    EXPECT_EQ(step.num_tokens % 50, 0) << step.num_tokens;
  }
  EXPECT_EQ(rig.engine().recent_steps().size(), 4u);
}

TEST(PooledRequests, AreRefusedForWhatTheModelLacks) {
  RigOptions options = pooling_rig();
  options.fake.generates = false;
  options.fake.pooling.num_labels = 0;
  Rig rig(options);
  EXPECT_FALSE(rig.submit(request(tokens(4), 2)).ok());
  EXPECT_FALSE(rig.submit(pooled(tokens(4), {.task = PoolingTask::kClassify})).ok());
  EXPECT_FALSE(rig.submit(pooled(tokens(4), {.dimensions = 9})).ok());
  EXPECT_EQ(rig.ask(pooled(tokens(4), {.dimensions = 5})).pooled.num_columns, 5);
}

}  // namespace
}  // namespace quire
