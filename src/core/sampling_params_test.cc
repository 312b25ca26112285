#include "core/sampling_params.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

SamplingParams with(auto&& change) {
  SamplingParams params;
  change(params);
  return params;
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(SamplingParams{}.validate(100, 20).ok()); }

TEST(SamplingParams, EveryBoundIsChecked) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const SamplingParams bad[] = {
      with([](auto& p) { p.max_tokens = -1; }),
      with([](auto& p) { p.min_tokens = 17; }),
      with([](auto& p) { p.temperature = 2.5f; }),
      with([&](auto& p) { p.temperature = nan; }),
      with([](auto& p) { p.top_p = 0.0f; }),
      with([](auto& p) { p.top_k = -2; }),
      with([](auto& p) { p.min_p = 1.5f; }),
      with([](auto& p) { p.presence_penalty = -3; }),
      with([](auto& p) { p.frequency_penalty = 3; }),
      with([](auto& p) { p.repetition_penalty = 0; }),
      with([](auto& p) {
        p.logit_bias = {{100, 1.0f}};
      }),
      with([](auto& p) { p.allowed_token_ids.emplace(); }),
      with([](auto& p) { p.allowed_token_ids = {{-1}}; }),
      with([](auto& p) { p.bad_words = {{}}; }),
      with([](auto& p) { p.stop = {""}; }),
      with([](auto& p) { p.logprobs = 21; }),
      with([](auto& p) { p.prompt_logprobs = -1; }),
      with([](auto& p) { p.num_speculative_tokens = -1; }),
      with([](auto& p) { p.prediction_token_ids = {100}; }),
  };
  for (const SamplingParams& params : bad) {
    EXPECT_EQ(params.validate(100, 20).code(), StatusCode::kInvalidArgument);
  }
}

TEST(SamplingParams, WholeVocabularyLogprobsNeedTheServersLeave) {
  const SamplingParams all = with([](auto& p) { p.logprobs = -1; });
  EXPECT_FALSE(all.validate(100, 20).ok());
  EXPECT_TRUE(all.validate(100, -1).ok());
}

}  // namespace
}  // namespace quire
