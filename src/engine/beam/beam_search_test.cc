// Compares beam search with a naive one that keeps whole texts, by both rules.
#include "engine/beam/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

#include "base/rng.h"
#include "engine/beam/testing/naive_beam_search.h"

namespace quire::test {
namespace {

// Made-up log-probabilities of 24 tokens, in steps of 1/64: sums are exact, and some are equal.
constexpr int32_t kVocabSize = 24;

TokenLogprobs candidates_behind(uint64_t seed, const std::vector<TokenId>& text) {
  std::array<uint32_t, 4> hash{1, 2, 3, 4};
  for (const TokenId id : text)
    hash = philox4x32(seed, {hash[0], hash[1], hash[2] ^ static_cast<uint32_t>(id), hash[3]});
  TokenLogprobs row;
  for (TokenId id = 0; id < kVocabSize; ++id) {
    const auto draw = philox4x32(seed + 1, {hash[0], hash[1], hash[2], static_cast<uint32_t>(id)});
    row.top.emplace_back(id, -static_cast<float>(draw[0] % 400) / 64);
  }
  std::stable_sort(row.top.begin(), row.top.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return row;
}

std::vector<BeamSearch::Text> search(uint64_t seed, int32_t width, int32_t num_prompt_tokens,
                                     const SamplingParams& params, const BeamSearchParams& rule) {
  BeamSearch beams(width, num_prompt_tokens, params, rule);
  std::map<int32_t, std::vector<TokenId>> texts{{0, {}}};
  int32_t most_copies = 0;
  while (!beams.done()) {
    for (const int32_t place : beams.places())
      beams.set_candidates(place, candidates_behind(seed, texts.at(place)));
    std::map<int32_t, std::vector<TokenId>> next;
    int32_t num_copies = 0;
    for (const BeamSearch::Move& move : beams.advance()) {
      std::vector<TokenId> text = texts.at(move.parent);
      text.push_back(move.token_id);
      next[move.place] = text;
      num_copies += move.place != move.parent;
      most_copies = std::max(most_copies, num_copies);
    }
    texts = std::move(next);
  }
  EXPECT_LE(most_copies, width - 1);
  return beams.best();
}

TEST(BeamSearch, IsTheNaiveOne) {
  std::mt19937 rng(7);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(rng()) % n; };
  int num_stopped = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    const auto width = static_cast<int32_t>(1 + below(8));
    SamplingParams params;
    params.max_tokens = static_cast<int32_t>(1 + below(10));
    params.ignore_eos = below(8) == 0;
    for (uint32_t i = below(3); i > 0; --i)
      params.eos_token_ids.push_back(static_cast<TokenId>(5 + i));
    if (BeamSearch::num_candidates(width, params) > kVocabSize) continue;
    constexpr float kPenalties[] = {-1, 0, 0.5f, 1, 2};
    BeamSearchParams rule{.length_penalty = kPenalties[below(5)]};
    if (const uint32_t stop = below(4); stop > 0)
      rule.early_stopping = static_cast<EarlyStopping>(stop - 1);
    const auto num_prompt_tokens = static_cast<int32_t>(1 + below(20));

    const NaiveBeamSearch naive{
        .width = width,
        .num_prompt_tokens = num_prompt_tokens,
        .params = params,
        .rule = rule,
        .candidates = [&](const auto& text) { return candidates_behind(round, text).top; }};
    const std::vector<NaiveBeamSearch::Text> expected = naive.run();
    const auto actual = search(round, width, num_prompt_tokens, params, rule);
    ASSERT_EQ(actual.size(), static_cast<size_t>(width));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i].token_ids, expected[i].token_ids) << "round " << round << ", text " << i;
      ASSERT_DOUBLE_EQ(actual[i].score, expected[i].score);
      ASSERT_EQ(actual[i].stopped, expected[i].stopped);
      num_stopped += actual[i].stopped;
    }
  }
  EXPECT_GT(num_stopped, 1000);
}

TEST(BeamSearch, OneBeamIsGreedy) {
  SamplingParams params;
  params.max_tokens = 6;
  const auto texts = search(1, 1, 3, params, {});
  std::vector<TokenId> greedy;
  for (int32_t i = 0; i < params.max_tokens; ++i)
    greedy.push_back(candidates_behind(1, greedy).top.front().first);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0].token_ids, greedy);
}

TEST(BeamSearch, TellsOfEachTokenWhatWasAsked) {
  SamplingParams params;
  params.max_tokens = 4;
  params.logprobs = 2;
  for (const BeamSearch::Text& text : search(3, 4, 5, params, {})) {
    ASSERT_EQ(text.logprobs.size(), text.token_ids.size());
    double sum = 0;
    std::vector<TokenId> context;
    for (size_t i = 0; i < text.token_ids.size(); ++i) {
      const auto row = candidates_behind(3, context).top;
      const TokenLogprobs& told = text.logprobs[i];
      EXPECT_EQ(told.token_id, text.token_ids[i]);
      EXPECT_EQ(row[static_cast<size_t>(told.rank - 1)], std::pair(told.token_id, told.logprob));
      EXPECT_EQ(told.top, std::vector(row.begin(), row.begin() + 2));
      sum += double{told.logprob};
      context.push_back(told.token_id);
    }
    EXPECT_DOUBLE_EQ(text.score, sum / (5 + 4));
  }
}

}  // namespace
}  // namespace quire::test
