// Drafts of a model: FakeExecutor as the served model and, with another hash or the same, as the one
// that drafts. It checks every block that the drafter plans.
#include <gtest/gtest.h>

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
  int32_t percent_right = 100;  // of what the drafting model says
  int32_t num_blocks = 64;
  int32_t max_step_tokens = 64;
};

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

INSTANTIATE_TEST_SUITE_P(Models, ModelDrafts,
                         ::testing::Values(Setup{}, Setup{.percent_right = 70},
                                           Setup{.percent_right = 0},
                                           Setup{.percent_right = 70, .num_blocks = 20},
                                           Setup{.percent_right = 70, .max_step_tokens = 8}));

// Greedy and seeded, alone and in a crowd that is preempted: the same tokens, and the drafter's
// blocks always hold what it says and come back.
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

}  // namespace
}  // namespace quire
