// Rows of logits that are not finite, at and behind drafts.
#include "exec/logits_stage.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

constexpr int64_t kVocab = 8;

// A request of two known tokens with the drafts 5 and 6, and what comes of a step in which each row
// has one greatest logit; -1: the row has a NaN.
RequestStepResult run(const std::vector<TokenId>& greatest) {
  StepPlan plan;
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0;
  plan.new_requests.push_back(
      {.id = RequestId{1}, .token_ids = {1, 2}, .num_prompt_tokens = 2, .params = params});
  plan.scheduled.push_back({.id = RequestId{1}, .num_scheduled_tokens = 4, .num_drafts = 2});
  plan.draft_token_ids = {5, 6};
  plan.total_num_scheduled_tokens = 4;
  plan.block_updates.push_back({0, 0, 0, BlockId{1}});
  KvSpec kv;
  kv.block_size = 16;
  kv.groups.push_back({.kind = KvKind::kFull, .layers = {}});
  RequestTable table(kVocab, 64, 1);
  const int32_t num_blocks[] = {4};
  EXPECT_TRUE(table.apply(plan, num_blocks, 4).ok());
  InputBatch batch({.max_tokens = 16, .max_reqs = 4, .max_seq_len = 64, .max_logit_rows = 4}, kv);
  const Status built = batch.build(plan, table);
  EXPECT_TRUE(built.ok()) << built.message();
  EXPECT_EQ(batch.logits_rows().size(), greatest.size());

  auto team = ThreadTeam::create({.num_threads = 1});
  EXPECT_TRUE(team.ok());
  std::vector<float> logits(4 * kVocab);
  const auto compute = [&](std::span<const int32_t> rows) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    for (size_t i = 0; i < rows.size(); ++i) {
      float* const row = logits.data() + i * kVocab;
      if (greatest[i] < 0) row[3] = std::numeric_limits<float>::quiet_NaN();
      if (greatest[i] >= 0) row[greatest[i]] = 1.0f;
    }
    return Status();
  };
  LogitsStage stage(compute, {}, *team, logits, kVocab, 4);
  std::vector<RequestStepResult> results;
  batch.start_results(plan, results);
  StepTimings timings;
  EXPECT_TRUE(stage.run(batch, results, {}, timings).ok());
  return results.at(0);
}

TEST(LogitsStage, TakesDraftsUpToTheFirstThatIsWrong) {
  EXPECT_EQ(run({5, 6, 4}).sampled_token_ids, (std::vector<TokenId>{5, 6, 4}));
  EXPECT_EQ(run({5, 2, 4}).sampled_token_ids, (std::vector<TokenId>{5, 2}));
}

// It was computed from a draft that did not come out, or the next step comes to it again.
TEST(LogitsStage, ARowBehindADraftThatIsNotFiniteHarmsNobody) {
  for (const std::vector<TokenId>& greatest :
       {std::vector<TokenId>{3, -1, -1}, std::vector<TokenId>{5, -1, 2}}) {
    const RequestStepResult result = run(greatest);
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_EQ(result.sampled_token_ids, std::vector<TokenId>{greatest[0]});
  }
}

TEST(LogitsStage, TheRequestsOwnRowThatIsNotFiniteFailsIt) {
  const RequestStepResult result = run({-1, 6, 4});
  EXPECT_EQ(result.status.code(), StatusCode::kInternal);
  EXPECT_TRUE(result.sampled_token_ids.empty());
}

}  // namespace
}  // namespace quire
