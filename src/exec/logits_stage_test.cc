// Rows of logits that are not finite, with drafts and without.
#include "exec/logits_stage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quire {
namespace {

constexpr int64_t kVocab = 8;

// Stands for a product that keeps only the greatest logit of each row that its mask allows.
void find_greatest(std::span<const float> logits, size_t num_rows, const uint32_t* const* allowed,
                   std::span<RowGreatest> found) {
  for (size_t row = 0; row < num_rows; ++row) {
    found[row] = {};
    for (size_t i = 0; i < kVocab; ++i) {
      const float value = logits[row * kVocab + i];
      found[row].all_finite = found[row].all_finite && std::isfinite(value);
      if (allowed[row] != nullptr && (*allowed[row] >> i & 1u) == 0) continue;
      if (found[row].column >= 0 && value <= found[row].value) continue;
      found[row].value = value;
      found[row].column = static_cast<int32_t>(i);
    }
  }
}

// Returns the result of a request with two known tokens and the drafts 5 and 6, in a step in which
// each row has one greatest logit; -1: the row has a NaN. `masks` are by row; empty: all tokens are
// allowed.
RequestStepResult run(const std::vector<TokenId>& greatest, const std::vector<uint32_t>& masks = {},
                      bool keeps_greatest = false) {
  StepPlan plan;
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0;
  plan.new_requests.push_back(
      {.id = RequestId{1}, .token_ids = {1, 2}, .num_prompt_tokens = 2, .params = params});
  plan.scheduled.push_back({.id = RequestId{1}, .num_scheduled_tokens = 4, .num_drafts = 2});
  plan.draft_token_ids = {5, 6};
  plan.total_num_scheduled_tokens = 4;
  if (!masks.empty()) {
    plan.token_masks = {.num_words = 1, .words = masks};
    plan.scheduled.back().mask_row = 0;
  }
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
  LogitsStage::FindGreatest find;
  if (keeps_greatest) {
    find = [&](std::span<const int32_t> rows, const uint32_t* const* allowed,
               std::span<RowGreatest> found) {
      EXPECT_TRUE(compute(rows).ok());
      find_greatest(logits, rows.size(), allowed, found);
      return true;
    };
  }
  LogitsStage stage(compute, find, *team, logits, kVocab, 4);
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

// The tokens are the same whether the product or the sampler applies the masks.
TEST(LogitsStage, MasksLeaveTheSameTokens) {
  constexpr uint32_t kAll = 0xFF;
  for (const bool keeps_greatest : {false, true}) {
    const auto tokens = [&](const std::vector<TokenId>& greatest, std::vector<uint32_t> masks) {
      const RequestStepResult result = run(greatest, masks, keeps_greatest);
      EXPECT_TRUE(result.status.ok()) << result.status.message();
      return result.sampled_token_ids;
    };
    EXPECT_EQ(tokens({5, 6, 4}, {kAll, kAll, kAll}), (std::vector<TokenId>{5, 6, 4}));
    EXPECT_EQ(tokens({5, 6, 4}, {kAll, kAll, 1u << 2}), (std::vector<TokenId>{5, 6, 2}));
    // The first of equal logits is chosen.
    EXPECT_EQ(tokens({5, 6, 4}, {kAll & ~(1u << 5), kAll, kAll}), (std::vector<TokenId>{0}));
    // The mask forbids every token: behind a draft that counts as if the draft were wrong.
    EXPECT_EQ(tokens({5, 6, 4}, {kAll, 0, kAll}), (std::vector<TokenId>{5}));
    const RequestStepResult none = run({5, 6, 4}, {0, kAll, kAll}, keeps_greatest);
    EXPECT_EQ(none.status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(run({-1, 6, 4}, {kAll, kAll, kAll}, keeps_greatest).status.code(),
              StatusCode::kInternal);
  }
}

// The row either was computed from a wrong draft, or the next step computes it again.
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
