#include "sample/logits_processors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace quire {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

std::vector<float> process(const std::vector<float>& logits, const SamplingParams& params,
                           const std::vector<TokenId>& prompt, const std::vector<TokenId>& output) {
  SamplerState state(params, prompt, static_cast<int32_t>(prompt.size()));
  for (const TokenId id : output) state.append(id);
  std::vector<float> row;
  process_logits(logits, params, state, static_cast<int32_t>(output.size()), row);
  return row;
}

TEST(LogitsProcessors, PenaltiesByHand) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.frequency_penalty = 0.5f;
  params.presence_penalty = 0.25f;
  // Token 0: in the prompt only; 1: twice in the output, negative; 2: once in the output; 3:
  // unseen.
  const auto row = process({4, -4, 6, 8}, params, {0, 0}, {1, 2, 1});
  EXPECT_EQ(row, (std::vector<float>{2.0f, -8.0f - 1.0f - 0.25f, 3.0f - 0.5f - 0.25f, 8.0f}));
}

TEST(LogitsProcessors, BiasComesBeforePenalties) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.logit_bias = {{0, 6.0f}};
  EXPECT_EQ(process({-2, 1}, params, {0}, {})[0], 2.0f);  // (-2 + 6) / 2
}

TEST(LogitsProcessors, AllowedTokensForbidTheRest) {
  SamplingParams params;
  params.allowed_token_ids = {1, 3, 99, -5};
  EXPECT_EQ(process({1, 2, 3, 4}, params, {}, {}), (std::vector<float>{kOut, 2, kOut, 4}));
}

TEST(LogitsProcessors, BadWordsLookAtOutputOnly) {
  SamplingParams params;
  params.bad_words = {{2}, {0, 1}, {1, 1, 3}};
  EXPECT_EQ(process({1, 1, 1, 1}, params, {0}, {}), (std::vector<float>{1, 1, kOut, 1}));
  EXPECT_EQ(process({1, 1, 1, 1}, params, {0}, {0}), (std::vector<float>{1, kOut, kOut, 1}));
  EXPECT_EQ(process({1, 1, 1, 1}, params, {}, {3, 1, 1}), (std::vector<float>{1, 1, kOut, kOut}));
  EXPECT_EQ(process({1, 1, 1, 1}, params, {}, {1, 1, 0}), (std::vector<float>{1, kOut, kOut, 1}));
}

TEST(LogitsProcessors, MinTokensForbidEosAndStopIds) {
  SamplingParams params;
  params.min_tokens = 2;
  params.max_tokens = 5;
  params.eos_token_ids = {0};
  params.stop_token_ids = {2, 1000};
  EXPECT_EQ(process({1, 1, 1}, params, {}, {1}), (std::vector<float>{kOut, 1, kOut}));
  EXPECT_EQ(process({1, 1, 1}, params, {}, {1, 1}), (std::vector<float>{1, 1, 1}));
}

// A state that is rebuilt from all tokens after a preemption must equal the one that grew.
TEST(LogitsProcessors, RebuiltStateEqualsGrownStateAndNaiveCounts) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    constexpr size_t kVocab = 300;
    SamplingParams params;
    params.repetition_penalty = 1.3f;
    params.frequency_penalty = 0.7f;
    params.presence_penalty = -0.4f;
    params.bad_words = {{1, 2, 3}, {4}};
    std::vector<float> logits(kVocab);
    for (float& x : logits) x = static_cast<float>(rng() % 1000) / 100 - 5;
    std::vector<TokenId> prompt(rng() % 400), output(rng() % 400);
    for (TokenId& id : prompt) id = static_cast<TokenId>(rng() % kVocab);
    for (TokenId& id : output) id = static_cast<TokenId>(rng() % kVocab);
    const auto grown = process(logits, params, prompt, output);

    auto all = prompt;
    all.insert(all.end(), output.begin(), output.end());
    const SamplerState rebuilt(params, all, static_cast<int32_t>(prompt.size()));
    std::vector<float> row;
    process_logits(logits, params, rebuilt, static_cast<int32_t>(output.size()), row);
    ASSERT_EQ(row, grown);

    const std::set<TokenId> seen(all.begin(), all.end());
    std::map<TokenId, int> in_output;
    for (const TokenId id : output) ++in_output[id];
    // Ids from 10 on are in no bad word.
    for (TokenId id = 10; id < static_cast<TokenId>(kVocab); ++id) {
      float expected = logits[static_cast<size_t>(id)];
      if (seen.contains(id)) expected = expected > 0 ? expected / 1.3f : expected * 1.3f;
      if (in_output.contains(id)) expected -= 0.7f * static_cast<float>(in_output[id]);
      if (in_output.contains(id)) expected -= -0.4f;
      ASSERT_EQ(grown[static_cast<size_t>(id)], expected) << id;
    }
  }
}

TEST(LogitsProcessors, NothingToDoIsKnown) {
  SamplingParams params;
  EXPECT_FALSE(needs_processing(params, 0));
  params.min_tokens = 1;
  EXPECT_TRUE(needs_processing(params, 0));
  EXPECT_FALSE(needs_processing(params, 1));
}

}  // namespace
}  // namespace quire
