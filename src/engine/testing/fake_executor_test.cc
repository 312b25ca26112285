#include "engine/testing/fake_executor.h"

#include <gtest/gtest.h>

#include "core/testing/executor_contract.h"

namespace quire {
namespace {

constexpr RequestId kA{1}, kB{2};

// Plans are written by hand to test the executor's own checks: each broken rule must be noticed.
class FakeExecutorTest : public testing::Test {
 protected:
  FakeExecutorTest() : FakeExecutorTest(FakeExecutorOptions{}) {}
  explicit FakeExecutorTest(FakeExecutorOptions options) {
    options.kv_spec.block_size = 4;
    fake_ = std::make_unique<FakeExecutor>(options);
    EXPECT_TRUE(fake_->initialize({.num_blocks = 10}).ok());
  }

  static NewRequest fresh(RequestId id, std::vector<TokenId> tokens) {
    auto params = std::make_shared<SamplingParams>();
    const auto n = static_cast<int32_t>(tokens.size());
    return {.id = id, .token_ids = std::move(tokens), .num_prompt_tokens = n, .params = params};
  }
  // Gives the request at `index` these blocks as logical blocks 0, 1, …
  static void set_table(StepPlan& plan, int32_t index, const std::vector<int32_t>& blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      plan.block_updates.push_back({.request_index = index,
                                    .group = 0,
                                    .logical_index = static_cast<int32_t>(i),
                                    .block = BlockId(blocks[i])});
    }
  }
  static void schedule(StepPlan& plan, RequestId id, int32_t computed, int32_t n) {
    plan.scheduled.push_back(
        {.id = id, .num_computed_tokens = computed, .num_scheduled_tokens = n});
    plan.total_num_scheduled_tokens += n;
  }
  StepPlan first_plan() {
    StepPlan plan;
    plan.new_requests.push_back(fresh(kA, {5, 6, 7, 8, 9}));
    schedule(plan, kA, 0, 5);
    set_table(plan, 0, {3, 4});
    return plan;
  }
  void expect_violation(const StepPlan& plan, const std::string& part) {
    const size_t before = fake_->violations().size();
    const auto result = fake_->execute(plan);
    EXPECT_FALSE(result.ok());
    ASSERT_EQ(fake_->violations().size(), before + 1);
    EXPECT_NE(fake_->violations().back().find(part), std::string::npos)
        << fake_->violations().back();
  }

  std::unique_ptr<FakeExecutor> fake_;
};

TEST_F(FakeExecutorTest, GoesOnAfterAFailedStep) {
  test::expect_recovery_from_failed_execute(*fake_);
}

TEST(FakeExecutor, GoesOnAfterAFailedSubmit) {
  FakeExecutor fake({.max_steps_in_flight = 2});
  ASSERT_TRUE(fake.initialize({.num_blocks = 10}).ok());
  test::expect_recovery_from_failed_submit(fake);
}

TEST_F(FakeExecutorTest, SamplesAtTheEndOfKnownTokensOnly) {
  StepPlan plan;
  plan.new_requests.push_back(fresh(kA, {5, 6, 7, 8, 9}));
  schedule(plan, kA, 0, 3);
  set_table(plan, 0, {3});
  auto result = fake_->execute(plan);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(result->requests[0].sampled_token_ids.empty());
  StepPlan rest;
  rest.step_id = 1;
  schedule(rest, kA, 3, 2);
  rest.block_updates.push_back({0, 0, 1, BlockId(7)});
  result = fake_->execute(rest);
  ASSERT_TRUE(result.ok()) << result.status().message();
  SamplingParams params;
  params.max_tokens = 1;
  EXPECT_EQ(result->requests[0].sampled_token_ids,
            fake_->expected_output(std::vector<TokenId>{5, 6, 7, 8, 9}, params));
}

TEST_F(FakeExecutorTest, NoticesALostBlock) {
  ASSERT_TRUE(fake_->execute(first_plan()).ok());
  StepPlan plan;
  plan.step_id = 1;
  schedule(plan, kA, 5, 1);
  plan.block_updates.push_back({0, 0, 0, BlockId(8)});  // was 3; 8 holds nothing
  expect_violation(plan, "holds nothing");
}

TEST_F(FakeExecutorTest, NoticesAnotherRequestsTokens) {
  StepPlan plan = first_plan();
  plan.new_requests.push_back(fresh(kB, {5, 6, 7, 1, 2, 3}));
  schedule(plan, kB, 0, 6);
  set_table(plan, 1, {5, 6});
  ASSERT_TRUE(fake_->execute(plan).ok());
  StepPlan next;
  next.step_id = 1;
  schedule(next, kB, 6, 1);
  // A's block, which differs in its last token.
  next.block_updates.push_back({0, 0, 0, BlockId(3)});
  expect_violation(next, "holds another prefix");
}

TEST_F(FakeExecutorTest, NoticesASharedSlotWrittenTwice) {
  StepPlan plan = first_plan();
  plan.new_requests.push_back(fresh(kB, {5, 6}));
  schedule(plan, kB, 0, 2);
  set_table(plan, 1, {3});
  expect_violation(plan, "written twice");
}

TEST_F(FakeExecutorTest, NoticesAMissingBlockAndTheNullBlock) {
  StepPlan plan = first_plan();
  plan.block_updates.pop_back();
  expect_violation(plan, "has no block");
  plan = first_plan();
  plan.step_id = 1;
  plan.dropped.push_back(kA);
  plan.block_updates.back().block = kNullBlock;
  expect_violation(plan, "has no block");
}

TEST_F(FakeExecutorTest, NoticesWrongCounts) {
  StepPlan plan = first_plan();
  plan.total_num_scheduled_tokens = 6;
  expect_violation(plan, "total_num_scheduled_tokens");
  plan = first_plan();
  plan.dropped.push_back(kA);
  plan.scheduled[0].num_scheduled_tokens = plan.total_num_scheduled_tokens = 6;
  expect_violation(plan, "positions [0, 6)");
  plan = first_plan();
  plan.dropped.push_back(kA);
  schedule(plan, kB, 0, 1);
  expect_violation(plan, "was never sent");
  plan = first_plan();  // A is still known from before
  expect_violation(plan, "was not dropped");
  plan = first_plan();
  plan.dropped.push_back(kA);
  plan.block_updates[0].block = BlockId(10);
  expect_violation(plan, "out of range");
}

TEST_F(FakeExecutorTest, CopiesCarryContent) {
  ASSERT_TRUE(fake_->execute(first_plan()).ok());
  StepPlan plan;
  plan.step_id = 1;
  plan.new_requests.push_back(fresh(kB, {5, 6, 7, 8, 9, 9}));
  schedule(plan, kB, 5, 1);
  set_table(plan, 0, {3, 9});
  StepPlan without_copy = plan;
  plan.block_copies.push_back({.source = BlockId(4), .destination = BlockId(9)});
  EXPECT_TRUE(fake_->execute(plan).ok());
  without_copy.step_id = 2;
  without_copy.dropped.push_back(kB);
  without_copy.block_updates.back().block = BlockId(8);
  expect_violation(without_copy, "holds nothing");
}

class WindowedFakeTest : public FakeExecutorTest {
 protected:
  static FakeExecutorOptions windowed() {
    FakeExecutorOptions options;
    options.kv_spec.groups = {{.kind = KvKind::kSlidingWindow, .sliding_window = 4, .layers = {0}}};
    return options;
  }
  WindowedFakeTest() : FakeExecutorTest(windowed()) {}
};

TEST_F(WindowedFakeTest, ReadsNoFurtherThanTheWindow) {
  StepPlan plan;
  plan.new_requests.push_back(fresh(kA, {1, 2, 3, 4, 5, 6, 7, 8}));
  schedule(plan, kA, 0, 8);
  set_table(plan, 0, {3, 4});
  ASSERT_TRUE(fake_->execute(plan).ok());
  StepPlan next;  // position 8 sees 5 … 8, so block 0 of the table may go
  next.step_id = 1;
  schedule(next, kA, 8, 1);
  next.block_updates = {{0, 0, 0, kNullBlock}, {0, 0, 2, BlockId(5)}};
  EXPECT_TRUE(fake_->execute(next).ok());
  StepPlan early = next;  // but not block 1
  early.step_id = 2;
  early.scheduled[0].num_computed_tokens = 9;
  early.block_updates = {{0, 0, 1, kNullBlock}};
  expect_violation(early, "has no block");
}

TEST(FakeExecutor, HeedsMinTokensAndAllowedTokens) {
  FakeExecutor fake;
  SamplingParams params;
  params.max_tokens = 50;
  params.allowed_token_ids = {1, 2, 3};
  params.stop_token_ids = {3};
  params.min_tokens = 20;
  const auto output = fake.expected_output(std::vector<TokenId>{9}, params);
  ASSERT_GE(output.size(), 21u);
  for (size_t i = 0; i < output.size(); ++i) {
    EXPECT_TRUE(output[i] >= 1 && output[i] <= 3);
    if (i < 20) {
      EXPECT_NE(output[i], 3) << i;
    }
  }
}

}  // namespace
}  // namespace quire
