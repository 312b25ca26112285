#include "facade/speculation/model_drafter.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "exec/model_runner.h"
#include "facade/testing/draft_golden_support.h"
#include "tests/support/temp_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

using test::kNumDrafts;
using test::Served;

Result<std::unique_ptr<Executor>> load(const ModelRunnerOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<ModelRunner> runner, ModelRunner::create(options));
  return std::unique_ptr<Executor>(std::move(runner));
}

class DraftGoldens : public ::testing::TestWithParam<std::string> {};

// Checks the drafts after each token of the text.
void expect_golden_drafts(Served& served) {
  size_t num_compared = 0;
  for (const test::GoldenDrafts& step : served.golden().steps) {
    const std::vector<TokenId>& tokens = served.request().token_ids;
    if (tokens.size() > step.num_tokens) continue;  // accepted drafts
    ASSERT_EQ(tokens.size(), step.num_tokens);
    ASSERT_EQ(tokens.back(), served.golden().token_ids[step.num_tokens - 1]);
    const std::vector<TokenId> drafts = served.propose();
    EXPECT_EQ(drafts, step.drafts) << "behind " << step.num_tokens << " tokens";
    EXPECT_EQ(served.propose(), step.drafts) << "asked once more";
    ++num_compared;
    served.step(1, drafts);
  }
  EXPECT_GE(num_compared, 2u);
}

TEST_P(DraftGoldens, AreTheOraclesDrafts) {
  Served served(GetParam(), load);
  served.start(1, served.golden().num_prompt_tokens);
  served.step(7);
  served.step(static_cast<int32_t>(served.golden().num_prompt_tokens) - 7);
  expect_golden_drafts(served);
  served.end();
  EXPECT_EQ(served.rows().num_rows(), 0);
}

// The prompt is computed in one step, whose states do not wait for drafts.
TEST_P(DraftGoldens, AreTheOraclesDraftsOfAWholePrompt) {
  Served served(GetParam(), load);
  served.start(1, served.golden().num_prompt_tokens);
  served.step(static_cast<int32_t>(served.golden().num_prompt_tokens));
  EXPECT_LE(served.rows().num_rows(), 17);
  expect_golden_drafts(served);
}

// A preempted request computes the tokens again that the drafter has seen.
TEST_P(DraftGoldens, AreTheOraclesDraftsAfterAPreemption) {
  Served served(GetParam(), load);
  served.start(1, served.golden().num_prompt_tokens);
  served.step(static_cast<int32_t>(served.golden().num_prompt_tokens));
  ASSERT_EQ(served.propose(), served.golden().steps.front().drafts);
  const size_t num_tokens = served.golden().num_prompt_tokens;
  served.start(1, num_tokens);
  served.step(9);
  served.step(static_cast<int32_t>(num_tokens) - 9);
  expect_golden_drafts(served);
}

// After a cached prefix there are drafts too, from fewer states.
TEST_P(DraftGoldens, GoOnBehindACachedPrefix) {
  Served served(GetParam(), load);
  if (GetParam() == "mtp_qwen") GTEST_SKIP() << "a model with states";
  const auto num_tokens = static_cast<int32_t>(served.golden().num_prompt_tokens);
  served.start(1, static_cast<size_t>(num_tokens));
  served.step(num_tokens);
  served.end();
  served.start(2, static_cast<size_t>(num_tokens), 16);
  served.step(num_tokens - 16);
  EXPECT_EQ(served.propose().size(), static_cast<size_t>(kNumDrafts));
}

INSTANTIATE_TEST_SUITE_P(All, DraftGoldens,
                         ::testing::Values("medusa_original", "medusa_vllm", "eagle",
                                           "eagle_prefix", "eagle3_original", "eagle3_speculators",
                                           "mtp_deepseek", "mtp_glm", "mtp_qwen", "mtp_sparse"),
                         [](const auto& info) { return info.param; });

// Every error is one line that says what is wrong.
std::string error_of(SpeculativeConfig config,
                     const fs::path& target = test::all_goldens() / "models/llama") {
  return make_model_drafter(config, test::draft_options(target), load).status().message();
}

TEST(ModelDrafter, SaysWhatIsWrong) {
  SpeculativeConfig medusa = test::draft_config("medusa_vllm");
  medusa.num_speculative_tokens = 4;
  EXPECT_NE(error_of(medusa).find("expected at most 3, the heads of"), std::string::npos)
      << error_of(medusa);
  const std::string no_mtp = error_of({.method = SpeculativeMethod::kMtp});
  EXPECT_NE(no_mtp.find("expected layers that predict tokens further ahead"), std::string::npos)
      << no_mtp;
  SpeculativeConfig eagle = test::draft_config("eagle");
  eagle.num_speculative_tokens = 0;
  EXPECT_NE(error_of(eagle).find("num_speculative_tokens"), std::string::npos);
  eagle = test::draft_config("eagle3_original");
  eagle.method = SpeculativeMethod::kEagle;
  EXPECT_NE(error_of(eagle).find("tensor"), std::string::npos) << error_of(eagle);
  medusa.model = (test::all_goldens() / "models/llama").string();
  EXPECT_NE(error_of(medusa).find("expected Medusa heads"), std::string::npos) << error_of(medusa);
}

// Returns greedy drafts after some texts.
std::vector<std::vector<TokenId>> drafts_of(const SpeculativeConfig& config) {
  const auto made =
      make_model_drafter(config, test::draft_options(test::all_goldens() / "models/llama"), load);
  EXPECT_TRUE(made.ok()) << made.status().message();
  std::vector<std::vector<TokenId>> out;
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0;
  params->max_tokens = 64;
  for (uint64_t i = 1; i <= 40; ++i) {
    Request request;
    request.id = RequestId{i};
    request.params = params;
    for (uint64_t k = 0; k < 4 + i % 9; ++k)
      request.token_ids.push_back(static_cast<TokenId>((i * 37 + k * k * 11) % 90));
    request.num_prompt_tokens = static_cast<int32_t>(request.token_ids.size());
    DraftQuery query{.request = &request, .max_drafts = kNumDrafts};
    made->drafter->propose({&query, 1});
    out.emplace_back(query.token_ids.begin(), query.token_ids.end());
    made->drafter->forget(request.id);
  }
  return out;
}

// The copy often drafts what the model itself would sample, and leaves no files.
TEST(ModelDrafter, ACopyOfFourBitsIsOftenRight) {
  const test::TempFolder folder;
  setenv("TMPDIR", folder.string().c_str(), 1);
  const auto copy = drafts_of({.method = SpeculativeMethod::kSelf, .num_speculative_tokens = 3});
  unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const auto model = drafts_of({.method = SpeculativeMethod::kDraftModel,
                                .num_speculative_tokens = 3,
                                .model = (test::all_goldens() / "models/llama").string()});
  int num_right = 0;
  for (size_t i = 0; i < copy.size(); ++i) {
    ASSERT_EQ(copy[i].size(), static_cast<size_t>(kNumDrafts));
    num_right += copy[i].front() == model[i].front();
  }
  EXPECT_GT(num_right, 20);
  EXPECT_LT(num_right, 40);  // else it is not a copy of 4 bits
}

TEST(ModelDrafter, OnlyFloatWeightsAreCopied) {
  const SpeculativeConfig self{.method = SpeculativeMethod::kSelf, .num_speculative_tokens = 3};
  const std::string error = error_of(self, test::all_goldens() / "quant_models/int8_llama");
  EXPECT_NE(error.find("self without num_hidden_layers"), std::string::npos) << error;
  EXPECT_NE(error.find("expected float weights"), std::string::npos) << error;
}

TEST(ModelDrafter, TakesTheNumberThatTheFilesAdvise) {
  SpeculativeConfig config = test::draft_config("eagle3_speculators");
  config.num_speculative_tokens = 0;
  const auto drafter =
      make_model_drafter(config, test::draft_options(test::all_goldens() / "models/llama"), load);
  ASSERT_TRUE(drafter.ok()) << drafter.status().message();
  EXPECT_EQ(drafter->num_speculative_tokens, 3);
}

}  // namespace
}  // namespace quire
