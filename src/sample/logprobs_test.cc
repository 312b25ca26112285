#include "sample/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace quire {
namespace {

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
    std::vector<Candidate> scratch;
    const TokenLogprobs got = compute_logprobs(row, token, 5, scratch);
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
  std::vector<Candidate> scratch;
  EXPECT_EQ(compute_logprobs(row, 1, 0, scratch).rank, 1);
  EXPECT_EQ(compute_logprobs(row, 3, 0, scratch).rank, 3);
  EXPECT_TRUE(compute_logprobs(row, 3, 0, scratch).top.empty());
  const auto top = compute_logprobs(row, 4, 2, scratch).top;
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].first, 1);
  EXPECT_EQ(top[1].first, 2);
}

TEST(Logprobs, MinusOneGivesTheWholeVocabulary) {
  const std::vector<float> row{0, 3, 1, 2};
  std::vector<Candidate> scratch;
  const auto top = compute_logprobs(row, 0, -1, scratch).top;
  ASSERT_EQ(top.size(), 4u);
  double mass = 0;
  for (const auto& [id, logprob] : top) mass += std::exp(static_cast<double>(logprob));
  EXPECT_NEAR(mass, 1.0, 1e-6);
  EXPECT_EQ(top[0].first, 1);
  EXPECT_EQ(top[3].first, 0);
}

TEST(Logprobs, HugeLogitsDoNotOverflow) {
  const std::vector<float> row{3e38f, 3e38f, -3e38f};
  std::vector<Candidate> scratch;
  const TokenLogprobs got = compute_logprobs(row, 0, 3, scratch);
  EXPECT_TRUE(std::isfinite(got.logprob));
}

}  // namespace
}  // namespace quire
