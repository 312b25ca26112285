// Checks of what an Executor promises about failed steps; the tests of each implementation run
// them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/executor.h"

namespace quire::test {

// Builds plans for requests of a few tokens, each with blocks of its own.
class ContractPlans {
 public:
  explicit ContractPlans(Executor& executor) : num_groups_(executor.kv_spec().groups.size()) {}

  // Returns a step with the whole prompt of a new request; the prompt has at most one block.
  StepPlan first_step(RequestId id, std::vector<TokenId> prompt) {
    StepPlan plan{.step_id = ++num_steps_};
    const auto num_tokens = static_cast<int32_t>(prompt.size());
    SamplingParams params;
    params.temperature = 0;
    plan.new_requests.push_back(
        {id, std::move(prompt), num_tokens, std::make_shared<SamplingParams>(params)});
    for (size_t group = 0; group < num_groups_; ++group) {
      plan.block_updates.push_back({0, static_cast<int32_t>(group), 0, BlockId(next_block_++)});
    }
    add(plan, id, 0, num_tokens);
    return plan;
  }
  StepPlan decode_step(RequestId id, int32_t position) {
    StepPlan plan{.step_id = ++num_steps_};
    add(plan, id, position, 1);
    return plan;
  }
  // Makes a plan impossible: it schedules a request that was never sent.
  static void spoil(StepPlan& plan) { add(plan, RequestId(999), 0, 1); }

 private:
  static void add(StepPlan& plan, RequestId id, int32_t position, int32_t num_tokens) {
    plan.scheduled.push_back(
        {.id = id, .num_computed_tokens = position, .num_scheduled_tokens = num_tokens});
    plan.total_num_scheduled_tokens += num_tokens;
  }

  const size_t num_groups_;
  int32_t next_block_ = 1;
  uint64_t num_steps_ = 0;
};

inline TokenId sampled_token(const Result<StepResult>& result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok() || result->requests.size() != 1) return -1;
  EXPECT_EQ(result->requests[0].sampled_token_ids.size(), 1u);
  return result->requests[0].sampled_token_ids.empty() ? -1
                                                       : result->requests[0].sampled_token_ids[0];
}

// Expects that, after execute() has failed, `dropped` of the failed plan has taken effect, that its
// requests can be dropped, even if the executor never knew them, and sent again, and that the
// executor goes on as if the step had never been.
inline void expect_recovery_from_failed_execute(Executor& executor) {
  ContractPlans plans(executor);
  const std::vector<TokenId> prompt{1, 2, 3};
  const TokenId first = sampled_token(executor.execute(plans.first_step(RequestId(1), prompt)));
  const TokenId second = sampled_token(executor.execute(plans.decode_step(RequestId(1), 3)));

  StepPlan failing = plans.first_step(RequestId(2), prompt);
  failing.dropped = {RequestId(1)};
  ContractPlans::spoil(failing);
  EXPECT_FALSE(executor.execute(failing).ok());

  StepPlan again = plans.first_step(RequestId(1), prompt);
  again.dropped = {RequestId(2), RequestId(999)};
  EXPECT_EQ(sampled_token(executor.execute(again)), first);
  EXPECT_EQ(sampled_token(executor.execute(plans.decode_step(RequestId(1), 3))), second);
  StepPlan end{.step_id = 100};
  end.dropped = {RequestId(1)};
  EXPECT_TRUE(executor.execute(end).ok());
}

// Expects the same of submit() while a step is under way, which is collected as usual.
inline void expect_recovery_from_failed_submit(Executor& executor) {
  ContractPlans plans(executor);
  const std::vector<TokenId> prompt{1, 2, 3};
  const TokenId first = sampled_token(executor.execute(plans.first_step(RequestId(1), prompt)));
  const TokenId second = sampled_token(executor.execute(plans.decode_step(RequestId(1), 3)));

  StepPlan under_way = plans.first_step(RequestId(3), prompt);
  under_way.dropped = {RequestId(1)};
  ASSERT_TRUE(executor.submit(under_way).ok());
  StepPlan failing = plans.first_step(RequestId(2), prompt);
  ContractPlans::spoil(failing);
  const bool fails_late = executor.submit(failing).ok();
  EXPECT_EQ(sampled_token(executor.collect()), first);
  if (fails_late) {
    EXPECT_FALSE(executor.collect().ok());
  }
  EXPECT_FALSE(executor.collect().ok()) << "no step is under way";

  StepPlan next = plans.decode_step(RequestId(3), 3);
  next.dropped = {RequestId(2), RequestId(999)};
  EXPECT_EQ(sampled_token(executor.execute(next)), second);
}

}  // namespace quire::test
