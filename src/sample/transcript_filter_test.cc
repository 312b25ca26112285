#include "sample/transcript_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "core/sampling_params.h"
#include "sample/sampler.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;
constexpr TokenId kEnd = 10, kNoTimes = 13, kFirst = 14, kVocab = 24;
constexpr float kForbidden = -std::numeric_limits<float>::infinity();

TranscriptRules rules() {
  return {.suppressed = {2, 11},
          .suppressed_first = {4, kEnd},
          .first_timestamp = kFirst,
          .no_timestamps = kNoTimes,
          .end_of_text = kEnd,
          .max_first_step = 3};
}

TranscriptProgress after(const Tokens& tokens, const TranscriptRules& of = rules()) {
  TranscriptProgress progress;
  for (const TokenId token : tokens) progress.append(of, token);
  return progress;
}

// Returns the tokens that may come next, when all logits are equal except those of timestamps,
// which are low.
std::set<TokenId> allowed_after(const Tokens& tokens, const TranscriptRules& of = rules()) {
  std::vector<float> logits(kVocab, 0.0f), row;
  std::fill(logits.begin() + kFirst, logits.end(), -50.0f);
  apply_transcript_rules(logits, of, after(tokens, of), row);
  std::set<TokenId> allowed;
  for (TokenId id = 0; id < kVocab; ++id) {
    if (row[static_cast<size_t>(id)] != kForbidden) allowed.insert(id);
  }
  return allowed;
}

// Applies the rules token by token, as the paper describes them.
std::set<TokenId> naive(const Tokens& tokens) {
  const auto is_time = [](TokenId id) { return id >= kFirst; };
  std::set<TokenId> allowed;
  TokenId last_time = -1;
  for (const TokenId token : tokens) {
    if (is_time(token)) last_time = token;
  }
  const size_t n = tokens.size();
  const bool one = n >= 1 && is_time(tokens[n - 1]);
  const bool two = one && (n < 2 || is_time(tokens[n - 2]));
  for (TokenId id = 0; id < kVocab; ++id) {
    if (id == 2 || id == 11 || id == kNoTimes) continue;
    if (n == 0 && (!is_time(id) || id > kFirst + 3)) continue;
    if (two && is_time(id)) continue;
    if (one && !two && id < kEnd) continue;
    if (is_time(id) && last_time >= 0 && (one && !two ? id < last_time : id <= last_time)) continue;
    allowed.insert(id);
  }
  return allowed;
}

TEST(TranscriptFilter, TextAndTimesComeInTheirOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    Tokens tokens;
    for (int i = 0; i < 12; ++i) {
      const std::set<TokenId> allowed = naive(tokens);
      ASSERT_EQ(allowed_after(tokens), allowed) << testing::PrintToString(tokens);
      if (allowed.empty()) break;
      tokens.push_back(
          *std::next(allowed.begin(), static_cast<int64_t>(random() % allowed.size())));
    }
  }
}

TEST(TranscriptFilter, LikelyTimesForbidText) {
  std::vector<float> logits(kVocab, -20.0f), row;
  logits[5] = 1.0f;
  for (TokenId id = kFirst + 2; id < kVocab; ++id) logits[static_cast<size_t>(id)] = 0.0f;
  apply_transcript_rules(logits, rules(), after({kFirst, 5}), row);
  EXPECT_EQ(row[5], kForbidden) << "eight times e^0 are more than e^1";
  EXPECT_EQ(row[kEnd], kForbidden);
  EXPECT_EQ(row[kFirst + 2], 0.0f);
  logits[5] = 3.0f;
  apply_transcript_rules(logits, rules(), after({kFirst, 5}), row);
  EXPECT_EQ(row[5], 3.0f);
}

TEST(TranscriptFilter, WithoutTimestampsSomeTokensAreSuppressed) {
  TranscriptRules plain = rules();
  plain.first_timestamp = -1;
  EXPECT_EQ(allowed_after({}, plain).contains(4), false);
  EXPECT_EQ(allowed_after({5}, plain).size(), static_cast<size_t>(kVocab - 2));
}

TEST(TranscriptFilter, IsPartOfSampling) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.logprobs = 0;
  params.transcript_rules = std::make_shared<TranscriptRules>(rules());
  const Tokens prompt = {1, 12};
  Sampler sampler;
  std::vector<float> logits(kVocab, 0.0f);
  logits[5] = 9.0f;
  Tokens tokens = prompt;
  SamplerState state(params, tokens, 2);
  for (int i = 0; i < 6; ++i) {
    const Result<SampleOutput> sampled = sampler.sample({.logits = logits,
                                                         .params = params,
                                                         .state = state,
                                                         .position = 2 + i,
                                                         .num_output_tokens = i});
    ASSERT_TRUE(sampled.ok()) << sampled.status().message();
    EXPECT_TRUE(std::isfinite(sampled->logprobs->logprob));
    tokens.push_back(sampled->token_id);
    state.append(sampled->token_id);
    // Rebuilt from all tokens, as after a preemption.
    const SamplerState again(params, tokens, 2);
    EXPECT_EQ(again.transcript().last_timestamp, state.transcript().last_timestamp);
    EXPECT_EQ(again.transcript().num_tokens, state.transcript().num_tokens);
  }
  EXPECT_EQ(Tokens(tokens.begin() + 2, tokens.end()), (Tokens{kFirst, 5, 5, 5, 5, 5}));
}

}  // namespace
}  // namespace quire
