#include "sample/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "device/isa.h"

namespace quire {
namespace {

TokenLogprobs logprobs_of(const std::vector<float>& row, TokenId token, int32_t num_top) {
  RowScanner scanner(best_isa());
  const ScannedRow scanned = scanner.scan(row);
  std::vector<Candidate> scratch;
  return compute_logprobs(scanner, scanned, token, {.num_top = num_top}, scratch);
}

TEST(Logprobs, GivenTokensAreListedHoweverUnlikely) {
  const std::vector<float> row = {1, 5, -3, 4, 1};
  RowScanner scanner(best_isa());
  const ScannedRow scanned = scanner.scan(row);
  std::vector<Candidate> scratch;
  const std::vector<TokenId> ids = {2, 4, 0, 2};
  const TokenLogprobs got =
      compute_logprobs(scanner, scanned, 1, {.num_top = 3, .token_ids = ids}, scratch);
  const TokenLogprobs all = logprobs_of(row, 1, -1);
  ASSERT_EQ(got.top.size(), 3u);  // a token named twice is listed once
  EXPECT_EQ(got.top[0], all.top[2]);
  EXPECT_EQ(got.top[1], all.top[3]);
  EXPECT_EQ(got.top[2], all.top[4]);
  EXPECT_EQ(got.top[2].first, 2);
  EXPECT_EQ(got.logprob, all.logprob);
}

TEST(Logprobs, MatchAnExactSoftmax) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0, 5);
    std::vector<float> row(2 + rng() % 5000);
    for (float& x : row) x = normal(rng);
    double total = 0;
    for (const float x : row) total += std::exp(static_cast<double>(x));
    const auto token = static_cast<TokenId>(rng() % row.size());
    const TokenLogprobs got = logprobs_of(row, token, 5);
    const auto exact = [&](TokenId id) {
      return static_cast<double>(row[static_cast<size_t>(id)]) - std::log(total);
    };
    EXPECT_EQ(got.token_id, token);
    EXPECT_NEAR(static_cast<double>(got.logprob), exact(token), 2e-5);
    int32_t rank = 1;
    for (const float x : row) rank += x > row[static_cast<size_t>(token)] ? 1 : 0;
    EXPECT_EQ(got.rank, rank);
    ASSERT_EQ(got.top.size(), std::min<size_t>(5, row.size()));
    EXPECT_EQ(row[static_cast<size_t>(got.top[0].first)],
              *std::max_element(row.begin(), row.end()));
    for (const auto& [id, logprob] : got.top) {
      EXPECT_NEAR(static_cast<double>(logprob), exact(id), 2e-5);
    }
    EXPECT_TRUE(std::is_sorted(got.top.begin(), got.top.end(),
                               [](const auto& a, const auto& b) { return a.second > b.second; }));
  }
}

TEST(Logprobs, TiesAreOrderedById) {
  const std::vector<float> row{1, 7, 7, 7, 0};
  EXPECT_EQ(logprobs_of(row, 1, 0).rank, 1);
  EXPECT_EQ(logprobs_of(row, 3, 0).rank, 3);
  EXPECT_TRUE(logprobs_of(row, 3, 0).top.empty());
  const auto top = logprobs_of(row, 4, 2).top;
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].first, 1);
  EXPECT_EQ(top[1].first, 2);
}

TEST(Logprobs, MinusOneGivesTheWholeVocabulary) {
  const std::vector<float> row{0, 3, 1, 2};
  const auto top = logprobs_of(row, 0, -1).top;
  ASSERT_EQ(top.size(), 4u);
  double mass = 0;
  for (const auto& [id, logprob] : top) mass += std::exp(static_cast<double>(logprob));
  EXPECT_NEAR(mass, 1.0, 1e-6);
  EXPECT_EQ(top[0].first, 1);
  EXPECT_EQ(top[3].first, 0);
}

TEST(Logprobs, HugeLogitsDoNotOverflow) {
  const std::vector<float> row{3e38f, 3e38f, -3e38f};
  const TokenLogprobs got = logprobs_of(row, 0, 3);
  EXPECT_TRUE(std::isfinite(got.logprob));
}

}  // namespace
}  // namespace quire
