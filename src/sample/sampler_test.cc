#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "base/rng.h"

namespace quire {
namespace {

TokenId sample_one(Sampler& sampler, const std::vector<float>& logits, const SamplingParams& params,
                   int32_t position) {
  const SamplerState state;
  const auto out = sampler.sample({.logits = logits,
                                   .params = params,
                                   .state = state,
                                   .position = position,
                                   .num_output_tokens = 0});
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? out->token_id : -1;
}

// Computes the distribution that temperature -> min_p -> top_k -> top_p leave, by a full sort in
// double. `slack` says how close the decision about any token was: cases that rounding decides
// cannot be compared.
struct Reference {
  std::vector<double> probs;
  double slack = 1;
};

Reference reference(const std::vector<float>& logits, const SamplingParams& params) {
  const double t = std::max(static_cast<double>(params.temperature), 0.01);
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> p(logits.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = std::exp((static_cast<double>(logits[i]) - max) / t);
  Reference ref;
  for (double& x : p) {
    if (params.min_p > 0)
      ref.slack = std::min(ref.slack, std::abs(x - static_cast<double>(params.min_p)));
    if (x < static_cast<double>(params.min_p)) x = 0;
  }
  auto order = std::vector<size_t>(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < p.size()) {
    const float kth = logits[order[static_cast<size_t>(params.top_k - 1)]];
    for (size_t i = 0; i < p.size(); ++i) p[i] = logits[i] < kth ? 0 : p[i];
  }
  double total = std::accumulate(p.begin(), p.end(), 0.0);
  double mass = 0;
  for (size_t i = 0; params.top_p < 1 && i < order.size(); ++i) {
    const double target = static_cast<double>(params.top_p) * total;
    const bool tied = i > 0 && logits[order[i]] == logits[order[i - 1]];
    if (mass >= target && !tied) {
      for (; i < order.size(); ++i) p[order[i]] = 0;
      break;
    }
    mass += p[order[i]];
    ref.slack = std::min(ref.slack, std::abs(mass - target));
  }
  total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  ref.probs = p;
  return ref;
}

// Returns the upper 99.99 % point of chi-square with `freedom` degrees, by the Wilson-Hilferty
// approximation.
double chi_square_limit(double freedom) {
  const double z = 3.72, a = 2 / (9 * freedom);
  return freedom * std::pow(1 - a + z * std::sqrt(a), 3);
}

std::vector<uint32_t> mask_of(size_t vocab_size, const std::vector<TokenId>& ids) {
  std::vector<uint32_t> mask((vocab_size + 31) / 32, 0);
  for (const TokenId id : ids) mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  return mask;
}

void expect_distribution(const std::vector<float>& logits, const SamplingParams& base, int draws) {
  const Reference ref = reference(logits, base);
  std::vector<int> counts(logits.size());
  Sampler sampler;
  SamplingParams params = base;
  for (int i = 0; i < draws; ++i) {
    params.seed = 1000 + static_cast<uint64_t>(i / 100);
    ++counts[static_cast<size_t>(sample_one(sampler, logits, params, i % 100))];
  }
  double chi = 0, pooled_expected = 0, pooled_count = 0;
  int cells = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = ref.probs[i] * draws;
    if (expected == 0) {
      ASSERT_EQ(counts[i], 0) << "token " << i << " was filtered out and drawn";
    } else if (expected < 5) {
      pooled_expected += expected;
      pooled_count += counts[i];
    } else {
      chi += (counts[i] - expected) * (counts[i] - expected) / expected;
      ++cells;
    }
  }
  if (pooled_expected >= 5) {
    chi += (pooled_count - pooled_expected) * (pooled_count - pooled_expected) / pooled_expected;
    ++cells;
  }
  if (cells > 1) {
    EXPECT_LT(chi, chi_square_limit(cells - 1)) << cells << " cells";
  }
}

std::vector<float> normal_row(uint32_t seed, size_t size, float deviation) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> row(size);
  for (float& x : row) x = normal(rng);
  return row;
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  expect_distribution(normal_row(1, 40, 1.5f), {}, 40000);
  expect_distribution(normal_row(2, 1000, 3.0f), {}, 40000);  // whole chunks are skipped
  SamplingParams cool;
  cool.temperature = 0.6f;
  expect_distribution(normal_row(3, 40, 1.5f), cool, 40000);
  SamplingParams hot;
  hot.temperature = 1.9f;
  expect_distribution(normal_row(4, 200, 2.0f), hot, 40000);
}

TEST(Sampler, FilteredDrawsFollowTheFilteredSoftmax) {
  SamplingParams params;
  params.top_k = 7;
  expect_distribution(normal_row(5, 100, 2), params, 20000);
  params = {};
  params.top_p = 0.8f;
  expect_distribution(normal_row(6, 100, 2), params, 20000);
  params = {};
  params.min_p = 0.1f;
  expect_distribution(normal_row(7, 100, 2), params, 20000);
  params = {};
  params.temperature = 0.8f;
  params.top_p = 0.9f;
  params.top_k = 20;
  params.min_p = 0.02f;
  expect_distribution(normal_row(8, 400, 2), params, 20000);
}

// Compares which tokens can be sampled at all with the naive reference, for many shapes of rows and
// filters.
TEST(Sampler, SurvivorsMatchTheReference) {
  int compared = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    auto logits = normal_row(seed + 100, 2 + rng() % 30, 1.0f);
    if (rng() % 3 == 0) {
      for (float& x : logits) x = std::round(x * 2) / 2;  // ties
    }
    SamplingParams params;
    params.temperature = 1.0f + static_cast<float>(rng() % 10) / 10;
    if (rng() % 2) params.top_p = static_cast<float>(1 + rng() % 98) / 100;
    if (rng() % 2) params.top_k = static_cast<int32_t>(rng() % 12);
    if (rng() % 2) params.min_p = static_cast<float>(rng() % 50) / 100;
    const Reference ref = reference(logits, params);
    if (ref.slack < 1e-4) continue;
    std::set<TokenId> expected, drawn;
    double rarest = 1;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (ref.probs[i] == 0) continue;
      expected.insert(static_cast<TokenId>(i));
      rarest = std::min(rarest, ref.probs[i]);
    }
    if (rarest < 0.005) continue;
    ++compared;
    Sampler sampler;
    for (int32_t i = 0; i < 3000; ++i) drawn.insert(sample_one(sampler, logits, params, i));
    ASSERT_EQ(drawn, expected);
  }
  EXPECT_GT(compared, 60);
}

TEST(Sampler, GreedyTakesTheSmallestOfEqualIds) {
  Sampler sampler;
  SamplingParams params;
  params.temperature = 0;
  std::vector<float> logits(1000, 1.0f);
  logits[500] = logits[700] = 2.0f;
  EXPECT_EQ(sample_one(sampler, logits, params, 3), 500);
  params.seed = 99;  // greedy has no randomness
  EXPECT_EQ(sample_one(sampler, logits, params, 4), 500);
}

TEST(Sampler, TinyTemperatureIsRaisedAndTopKOneIsGreedy) {
  Sampler sampler;
  SamplingParams params;
  params.temperature = 0.0001f;
  const std::vector<float> close{1.0f, 1.001f};
  std::set<TokenId> drawn;
  for (int32_t i = 0; i < 200; ++i) drawn.insert(sample_one(sampler, close, params, i));
  EXPECT_EQ(drawn.size(), 2u) << "0.0001 must act as 0.01";
  params = {};
  params.top_k = 1;
  const auto row = normal_row(9, 500, 1);
  const auto best = std::max_element(row.begin(), row.end()) - row.begin();
  for (int32_t i = 0; i < 50; ++i) EXPECT_EQ(sample_one(sampler, row, params, i), best);
}

TEST(Sampler, DrawDependsOnSeedAndPositionOnly) {
  const auto row = normal_row(10, 2000, 1);
  const auto other = normal_row(11, 500, 1);
  SamplingParams params;
  params.seed = 5;
  Sampler a, b;
  std::vector<TokenId> first, second, reseeded;
  for (int32_t i = 0; i < 100; ++i) first.push_back(sample_one(a, row, params, i));
  for (int32_t i = 99; i >= 0; --i) {
    sample_one(b, other, params, i);  // another request in between
    second.insert(second.begin(), sample_one(b, row, params, i));
  }
  params.seed = 6;
  for (int32_t i = 0; i < 100; ++i) reseeded.push_back(sample_one(a, row, params, i));
  EXPECT_EQ(first, second);
  EXPECT_NE(first, reseeded);
  EXPECT_GT(std::set<TokenId>(first.begin(), first.end()).size(), 50u);
}

// The definition: argmax of logit / T + Gumbel noise, one Philox word per token.
TEST(Sampler, IsGumbelMaxOverPhiloxWords) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const auto row =
        normal_row(seed, 1 + seed * 17 % 3000, 0.1f + static_cast<float>(seed % 40) / 4);
    SamplingParams params;
    params.seed = seed * 1234567;
    const auto max = static_cast<double>(*std::max_element(row.begin(), row.end()));
    double best = -1e300;
    TokenId expected = -1;
    for (size_t i = 0; i < row.size(); ++i) {
      const auto words = philox4x32(*params.seed, {seed, 0, static_cast<uint32_t>(i / 4), 0});
      const double u = (static_cast<double>(words[i % 4]) + 0.5) / 4294967296.0;
      const double score =
          static_cast<double>(static_cast<float>(static_cast<double>(row[i]) - max)) -
          std::log(-std::log(u));
      if (score > best) {
        best = score;
        expected = static_cast<TokenId>(i);
      }
    }
    Sampler sampler;
    ASSERT_EQ(sample_one(sampler, row, params, static_cast<int32_t>(seed)), expected);
  }
}

// Returns the token that a full sort and noise for every token give, in double; nullopt if rounding
// could have decided.
std::optional<TokenId> reference_token(const std::vector<float>& row, const SamplingParams& params,
                                       int32_t position) {
  constexpr double kClose = 2e-5;
  const Reference ref = reference(row, params);
  if (params.top_p < 1 || params.min_p > 0) {
    // Slack is relative to the greatest probability; that of a single token can be far below it.
    double total = 0;
    const double max = static_cast<double>(*std::max_element(row.begin(), row.end()));
    for (const float x : row)
      total += std::exp((static_cast<double>(x) - max) / static_cast<double>(params.temperature));
    if (ref.slack < kClose * total) return std::nullopt;
  }
  double best = -1e300, second = -1e300;
  TokenId token = -1;
  for (size_t i = 0; i < row.size(); ++i) {
    if (ref.probs[i] == 0) continue;
    const auto words = philox4x32(
        *params.seed, {static_cast<uint32_t>(position), 0, static_cast<uint32_t>(i / 4), 0});
    const double u = (static_cast<double>(words[i % 4]) + 0.5) / 4294967296.0;
    const double score = std::log(ref.probs[i]) - std::log(-std::log(u));
    if (score > best) {
      second = best;
      best = score;
      token = static_cast<TokenId>(i);
    } else {
      second = std::max(second, score);
    }
  }
  if (best - second < kClose * 10) return std::nullopt;
  return token;
}

TEST(Sampler, EqualsTheReferenceForAnyParameters) {
  int compared = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    const size_t size = seed % 40 == 0 ? 151936 : 1 + rng() % 5000;
    const auto row = normal_row(seed, size, 0.05f + static_cast<float>(rng() % 50) / 10);
    SamplingParams params;
    params.seed = rng();
    params.temperature = 0.05f + static_cast<float>(rng() % 40) / 20;
    if (rng() % 2) params.top_p = static_cast<float>(1 + rng() % 99) / 100;
    if (rng() % 3 == 0) params.top_k = static_cast<int32_t>(1 + rng() % (2 * size));
    if (rng() % 3 == 0) params.min_p = static_cast<float>(rng() % 100) / 1000;
    const auto position = static_cast<int32_t>(rng() % 1000);
    const std::optional<TokenId> expected = reference_token(row, params, position);
    if (!expected) continue;
    ++compared;
    for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
      if (!has_isa(isa)) continue;
      Sampler sampler(isa);
      ASSERT_EQ(sample_one(sampler, row, params, position), *expected) << to_string(isa);
    }
  }
  EXPECT_GT(compared, 300);
}

// Rows are long enough for the cut to be guessed from a part of them, also where that part misleads
// because it lacks the light tokens or holds most of them.
TEST(Sampler, TopPOverLongRowsEqualsTheReference) {
  int compared = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    auto row = normal_row(seed, 16384 + rng() % 20000, 0.5f + static_cast<float>(rng() % 30) / 10);
    if (seed % 3 == 1) std::sort(row.begin(), row.end());
    for (size_t i = 0; seed % 3 == 2 && i < row.size(); ++i) {
      if (i / 64 % 16 == 0) row[i] += seed % 2 == 0 ? 6.0f : -6.0f;
    }
    SamplingParams params;
    params.seed = rng();
    params.temperature = 0.5f + static_cast<float>(rng() % 40) / 20;
    params.top_p = static_cast<float>(500 + rng() % 499) / 1000;
    const std::optional<TokenId> expected = reference_token(row, params, 3);
    if (!expected) continue;
    ++compared;
    for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
      if (!has_isa(isa)) continue;
      Sampler sampler(isa);
      ASSERT_EQ(sample_one(sampler, row, params, 3), *expected) << to_string(isa);
    }
  }
  EXPECT_GT(compared, 15);
}

// The row is so flat that top_p needs most of the vocabulary.
TEST(Sampler, TopPOverAFlatRowKeepsTheRightMass) {
  for (const float deviation : {0.0f, 0.0001f, 0.01f, 0.3f, 1.0f}) {
    const auto row = normal_row(12, 3000, deviation);
    SamplingParams params;
    params.top_p = 0.5f;
    const Reference ref = reference(row, params);
    Sampler sampler;
    std::set<TokenId> drawn;
    for (int32_t i = 0; i < 600; ++i) {
      const TokenId token = sample_one(sampler, row, params, i);
      if (ref.slack > 1e-3) {
        ASSERT_GT(ref.probs[static_cast<size_t>(token)], 0.0) << deviation;
      }
      drawn.insert(token);
    }
    EXPECT_GT(drawn.size(), 200u) << deviation;
    if (deviation > 0) {
      // No token of the lower end may be sampled, since no rounding could include it.
      std::vector<float> sorted = row;
      std::sort(sorted.begin(), sorted.end());
      for (const TokenId token : drawn) {
        ASSERT_GT(row[static_cast<size_t>(token)], sorted[1000]) << deviation;
      }
    }
  }
}

// Skipping chunks that cannot win must not change the winner.
TEST(Sampler, SkippingDoesNotChangeTheWinner) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    auto row = normal_row(seed, 5000, 6);
    SamplingParams params;
    params.seed = seed;
    Sampler sampler;
    const TokenId winner = sample_one(sampler, row, params, 1);
    // A longer row takes other paths in the code; the noise of a token stays the same.
    std::vector<float> padded(row);
    padded.resize(row.size() + 777, -1e30f);
    ASSERT_EQ(sample_one(sampler, padded, params, 1), winner);
    // Removing losers far below keeps the winner.
    for (float& x : row) x = x < row[static_cast<size_t>(winner)] - 30 ? -1e30f : x;
    ASSERT_EQ(sample_one(sampler, row, params, 1), winner);
  }
}

TEST(Sampler, NonFiniteLogitsFailTheRequest) {
  Sampler sampler;
  const SamplingParams params;
  const SamplerState state;
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    std::vector<float> row(100, 0.0f);
    row[57] = bad;
    const auto out =
        sampler.sample({.logits = row, .params = params, .state = state, .position = 7});
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.status().code(), StatusCode::kInternal);
    EXPECT_FALSE(sampler.logprobs(row, 0, 1).ok());
  }
  EXPECT_FALSE(sampler.sample({.logits = {}, .params = params, .state = state}).ok());
}

TEST(Sampler, NoAllowedTokenIsAnErrorNotAGuess) {
  Sampler sampler;
  SamplingParams params;
  params.allowed_token_ids = {2};
  params.eos_token_ids = {2};
  params.min_tokens = 1;
  const SamplerState state;
  const std::vector<float> row(10, 0.0f);
  const auto out = sampler.sample({.logits = row, .params = params, .state = state});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().code(), StatusCode::kInvalidArgument);
}

// Logprobs are those of the model, whatever the parameters change.
TEST(Sampler, LogprobsAreRaw) {
  Sampler sampler;
  SamplingParams params;
  params.logprobs = 2;
  params.temperature = 0;
  params.logit_bias = {{0, 100.0f}};
  const std::vector<float> row{0, 1, 2};
  const SamplerState state;
  const auto out = sampler.sample({.logits = row, .params = params, .state = state});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->token_id, 0);
  ASSERT_TRUE(out->logprobs.has_value());
  EXPECT_EQ(out->logprobs->rank, 3);
  EXPECT_NEAR(static_cast<double>(out->logprobs->logprob),
              -std::log(1 + std::exp(1.0) + std::exp(2.0)), 1e-5);
  ASSERT_EQ(out->logprobs->top.size(), 2u);
  EXPECT_EQ(out->logprobs->top[0].first, 2);
}

// A token that the mask forbids is not in the distribution: it is never drawn, whatever the
// parameters say, and logprobs are those of the remaining tokens.
TEST(Sampler, KeepsToTheTokenMask) {
  std::vector<float> logits(70);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = 0.1f * static_cast<float>(i);
  const std::vector<TokenId> allowed{3, 31, 32, 64};
  const std::vector<uint32_t> mask = mask_of(logits.size(), allowed);
  Sampler sampler;
  const SamplerState state;
  std::set<TokenId> drawn;
  SamplingParams params;
  params.logprobs = 5;
  params.logit_bias = {{50, 100.0f}};
  double total = 0;
  for (const TokenId id : allowed)
    total += std::exp(static_cast<double>(logits[static_cast<size_t>(id)]));
  for (int32_t position = 0; position < 400; ++position) {
    const auto out = sampler.sample({.logits = logits,
                                     .params = params,
                                     .state = state,
                                     .position = position,
                                     .token_mask = mask});
    ASSERT_TRUE(out.ok());
    drawn.insert(out->token_id);
    const double logit = static_cast<double>(logits[static_cast<size_t>(out->token_id)]);
    EXPECT_NEAR(out->logprobs->logprob, logit - std::log(total), 1e-5);
    ASSERT_EQ(out->logprobs->top.size(), 5u);
    EXPECT_EQ(out->logprobs->top[0].first, 64);
    EXPECT_EQ(out->logprobs->top[4].second, -std::numeric_limits<float>::infinity());
  }
  EXPECT_EQ(drawn, std::set<TokenId>(allowed.begin(), allowed.end()));

  params.temperature = 0;
  const auto greedy = sampler.sample(
      {.logits = logits, .params = params, .state = state, .position = 1, .token_mask = mask});
  ASSERT_TRUE(greedy.ok());
  EXPECT_EQ(greedy->token_id, 64);
}

// Many logits are equal here; the first one that the mask allows wins.
TEST(Sampler, TheGreatestOfAMaskIsTheFirstOfThoseItLeaves) {
  std::mt19937 rng(3);
  Sampler sampler;
  const SamplerState state;
  SamplingParams params;
  params.temperature = 0;
  for (int32_t round = 0; round < 400; ++round) {
    std::vector<float> logits(1 + rng() % 300);
    for (float& logit : logits) logit = static_cast<float>(rng() % 5) - 2.0f;
    const auto one_in = 1 + rng() % 40;
    std::vector<TokenId> allowed;
    TokenId expected = -1;
    for (TokenId id = 0; id < static_cast<TokenId>(logits.size()); ++id) {
      const bool is_dense = round % 2 == 0;
      if ((rng() % one_in == 0) == is_dense) continue;
      allowed.push_back(id);
      const auto value = [&](TokenId t) { return logits[static_cast<size_t>(t)]; };
      if (expected < 0 || value(id) > value(expected)) expected = id;
    }
    const std::vector<uint32_t> mask = mask_of(logits.size(), allowed);
    const auto out = sampler.sample(
        {.logits = logits, .params = params, .state = state, .position = 0, .token_mask = mask});
    if (expected < 0) {
      EXPECT_EQ(out.status().code(), StatusCode::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->token_id, expected);
  }
}

TEST(Sampler, AMaskThatLeavesNothingFailsTheRequest) {
  const std::vector<float> logits(40, 1.0f);
  SamplingParams params;
  params.allowed_token_ids = {{7}};
  const std::vector<uint32_t> mask = mask_of(logits.size(), {8});
  Sampler sampler;
  const SamplerState state;
  const auto out = sampler.sample(
      {.logits = logits, .params = params, .state = state, .position = 0, .token_mask = mask});
  EXPECT_EQ(out.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
