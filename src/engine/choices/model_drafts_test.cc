// Drafts of a model: FakeExecutor is both the served model and, with the same hash or another one,
// the drafting model. It checks every block that the drafter plans.
#include <gtest/gtest.h>

#include <map>

#include "draft/executor_drafter.h"
#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::request;
using test::Rig;
using test::small_rig;
using test::tokens;

constexpr int32_t kNumDrafts = 4;

struct Setup {
  int32_t percent_right = 100;  // of the drafting model's tokens
  int32_t num_blocks = 64;
  int32_t max_step_tokens = 64;
};

const Setup kSetups[] = {{},
                         {.percent_right = 70},
                         {.percent_right = 0},
                         {.percent_right = 70, .num_blocks = 20},
                         {.percent_right = 70, .max_step_tokens = 8}};

class ModelDrafts : public ::testing::TestWithParam<Setup> {
 protected:
  std::shared_ptr<Drafter> make_drafter() {
    FakeExecutorOptions options = small_rig().fake;
    options.next_token = [share = GetParam().percent_right](
                             std::span<const TokenId> context) -> std::optional<TokenId> {
      const bool is_right = (context.back() * 31 + std::ssize(context) * 7) % 100 < share;
      return is_right ? std::nullopt : std::optional<TokenId>(0);
    };
    auto executor = std::make_unique<FakeExecutor>(options);
    fake_ = executor.get();
    EXPECT_TRUE(executor->initialize({.num_blocks = GetParam().num_blocks}).ok());
    auto drafter =
        ExecutorDrafter::create(std::move(executor), {.num_blocks = GetParam().num_blocks,
                                                      .max_step_tokens = GetParam().max_step_tokens,
                                                      .max_seqs = 8,
                                                      .step_times = {}});
    EXPECT_TRUE(drafter.ok()) << drafter.status().message();
    drafter_ = std::shared_ptr<ExecutorDrafter>(std::move(*drafter));
    return drafter_;
  }

  FakeExecutor* fake_ = nullptr;
  std::shared_ptr<ExecutorDrafter> drafter_;
};

INSTANTIATE_TEST_SUITE_P(Models, ModelDrafts, ::testing::ValuesIn(kSetups));

// Greedy and seeded requests, alone and among others with preemption, give the same tokens. The
// drafter's blocks always hold what it says, and are freed in the end.
TEST_P(ModelDrafts, ChangeNoToken) {
  auto options = small_rig();
  options.engine.num_blocks = 40;
  options.engine.drafter = make_drafter();
  options.engine.scheduler.num_speculative_tokens = kNumDrafts;
  Rig rig(options);
  std::vector<std::pair<GroupId, GenerationRequest>> asked;
  for (int32_t i = 0; i < 10; ++i) {
    auto r = request(tokens(20 + i % 5, 1 + i % 3), 30);
    r.params.seed = static_cast<uint64_t>(i);
    r.params.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    r.params.logprobs = i % 3 == 0 ? std::optional<int32_t>(1) : std::nullopt;
    const auto id = rig.submit(r);
    ASSERT_TRUE(id.ok());
    asked.emplace_back(*id, r);
  }
  rig.run();
  DraftCounts drafts;
  for (const auto& [id, r] : asked) {
    EXPECT_EQ(rig.answer(id).token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params));
    drafts.add(rig.answer(id).drafts);
  }
  EXPECT_EQ(fake_->violations(), std::vector<std::string>{});
  EXPECT_EQ(drafter_->num_free_blocks(), GetParam().num_blocks - 1);
  EXPECT_GT(drafts.num_drafts, 0);
  const auto share = 100 * drafts.num_accepted / std::max<int64_t>(1, drafts.num_drafts);
  if (GetParam().percent_right == 100) {
    EXPECT_EQ(share, 100);  // with the request's own noise, at any temperature
  }
  if (GetParam().percent_right == 0) {
    EXPECT_LT(share, 2);
  }
}

// A stand-in for the hidden states that a drafter gets: rows with their position, put as a model
// puts them.
class HiddenDrafts : public ::testing::TestWithParam<Setup> {
 protected:
  static std::optional<TokenId> next(std::span<const TokenId> context) {
    return (context.back() * 31 + 7) % 1000;
  }

  // Checks that all or none of a step's tokens have the states of the tokens before them; if none
  // do, the tokens are behind the model's last one.
  Status check(const StepPlan& plan) {
    for (const ScheduledRequest& scheduled : plan.scheduled) {
      const int32_t first = rows_->first_position(scheduled.id) - 1 + scheduled.num_computed_tokens;
      const HiddenRows::Range range = rows_->range(scheduled.id);
      if (first == range.end && scheduled.num_scheduled_tokens == 1) last_own_ = range.end;
      if (first >= range.end) continue;
      for (int32_t i = 0; i < scheduled.num_scheduled_tokens; ++i) {
        if (!range.contains(first + i))
          return internal_error("no state at {} of [{}, {})", first + i, range.begin, range.end);
        const float position = rows_->row(scheduled.id, first + i)[0];
        if (position != static_cast<float>(first + i))
          return internal_error("the state of {} at {}", position, first + i);
        ++num_fed_;
      }
    }
    return {};
  }

  // Puts the states of a step, and checks the texts of its requests, whose continuation is known.
  void put(const StepPlan& plan) {
    for (const RequestId id : plan.dropped) rows_->forget(id);
    for (const NewRequest& request : plan.new_requests) requests_[request.id] = request;
    std::vector<HiddenText> texts;
    for (const ScheduledRequest& scheduled : plan.scheduled) {
      for (int32_t i = 0; i < scheduled.num_scheduled_tokens; ++i) {
        const auto position = static_cast<float>(scheduled.num_computed_tokens + i);
        rows_->put(scheduled.id, scheduled.num_computed_tokens + i, {&position, 1});
      }
      NewRequest& request = requests_.at(scheduled.id);
      const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
      if (end - scheduled.num_drafts == std::ssize(request.token_ids)) {
        request.token_ids.push_back(*next(request.token_ids));
        for (const TokenId draft : plan.drafts(scheduled)) {
          if (draft != request.token_ids.back()) break;
          request.token_ids.push_back(*next(request.token_ids));
        }
      }
      texts.push_back({.id = scheduled.id,
                       .token_ids = request.token_ids,
                       .num_prompt_tokens = request.num_prompt_tokens,
                       .params = request.params,
                       .may_draft = request.params->num_speculative_tokens != 0});
    }
    rows_->end_step(texts);
  }

  std::shared_ptr<ExecutorDrafter> make_drafter() {
    FakeExecutorOptions options = small_rig().fake;
    options.next_token = [share = GetParam().percent_right](std::span<const TokenId> context) {
      const bool is_right = (context.back() * 17 + 3) % 100 < share;
      return is_right ? next(context) : std::optional<TokenId>(0);
    };
    options.fail_step = [this](const StepPlan& plan) { return check(plan); };
    auto executor = std::make_unique<FakeExecutor>(options);
    fake_ = executor.get();
    EXPECT_TRUE(executor->initialize({.num_blocks = GetParam().num_blocks}).ok());
    auto drafter =
        ExecutorDrafter::create(std::move(executor), {.num_blocks = GetParam().num_blocks,
                                                      .max_step_tokens = GetParam().max_step_tokens,
                                                      .max_seqs = 8,
                                                      .step_times = {},
                                                      .hidden_rows = rows_});
    EXPECT_TRUE(drafter.ok()) << drafter.status().message();
    return std::move(*drafter);
  }

  const std::shared_ptr<HiddenRows> rows_ = std::make_shared<HiddenRows>(HiddenRowsSpec{});
  std::map<RequestId, NewRequest> requests_;
  FakeExecutor* fake_ = nullptr;
  int32_t last_own_ = 0;
  int64_t num_fed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Models, HiddenDrafts, ::testing::ValuesIn(kSetups));

// With long prompts in chunks, cached prefixes, preemption, several choices, and requests without
// drafts: the same tokens, and every state at its position.
TEST_P(HiddenDrafts, ChangeNoToken) {
  auto options = small_rig();
  options.engine.num_blocks = 40;
  const std::shared_ptr<ExecutorDrafter> drafter = make_drafter();
  options.engine.drafter = drafter;
  options.engine.scheduler.num_speculative_tokens = kNumDrafts;
  options.fake.next_token = next;
  options.fake.fail_step = [this](const StepPlan& plan) {
    put(plan);
    return Status();
  };
  std::vector<std::pair<GroupId, GenerationRequest>> asked;
  Rig rig(options);
  for (int32_t i = 0; i < 16; ++i) {
    auto r = request(tokens(20 + i * 5 % 60, 1 + i % 3), 30);
    r.params.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    if (i % 7 == 6) r.params.num_speculative_tokens = 0;
    const auto id = rig.submit(r);
    ASSERT_TRUE(id.ok()) << id.status().message();
    asked.emplace_back(*id, r);
    if (i == 7) rig.run();  // later requests find prefixes
  }
  rig.run();
  DraftCounts drafts;
  for (const auto& [id, r] : asked) {
    EXPECT_EQ(rig.answer(id).token_ids, rig.fake().expected_output(r.prompt_token_ids, r.params));
    drafts.add(rig.answer(id).drafts);
  }
  EXPECT_EQ(fake_->violations(), std::vector<std::string>{});
  EXPECT_EQ(drafter->num_free_blocks(), GetParam().num_blocks - 1);
  EXPECT_EQ(rows_->num_rows(), 0);
  EXPECT_GT(drafts.num_drafts, 0);
  EXPECT_GT(num_fed_, 0);
  EXPECT_GT(last_own_, 0);
  if (GetParam().percent_right == 100) {
    EXPECT_EQ(drafts.num_accepted, drafts.num_drafts);
  }
}

}  // namespace
}  // namespace quire
