// Measures how often a draft is accepted: a row accepts it if the row's own sample, drawn with the
// same noise from the request's seed and the token's position, is the same token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "sample/sampler.h"

namespace quire {
namespace {

constexpr size_t kVocab = 300;

using Row = std::vector<float>;

// A distribution like that of words in a language, in random order, and a second one; `noise` is
// their distance.
struct Pair {
  Row target, drafter;
};
Pair random_pair(std::mt19937& rng, float noise) {
  std::normal_distribution<float> normal;
  Pair pair{Row(kVocab), Row(kVocab)};
  for (size_t i = 0; i < kVocab; ++i)
    pair.target[i] = -1.3f * std::log(static_cast<float>(i + 1)) + 0.5f * normal(rng);
  std::shuffle(pair.target.begin(), pair.target.end(), rng);
  for (size_t i = 0; i < kVocab; ++i) pair.drafter[i] = pair.target[i] + noise * normal(rng);
  return pair;
}

std::vector<double> softmax(const Row& row, double temperature) {
  std::vector<double> out;
  double sum = 0;
  for (const float logit : row) sum += out.emplace_back(std::exp(double{logit} / temperature));
  for (double& value : out) value /= sum;
  return out;
}

// Means over all rows.
struct Shares {
  double accepted = 0;   // drafts drawn with the same noise, as measured
  double coupled = 0;    // the same, by sum_i 1 / sum_j max(p_j / p_i, q_j / q_i)
  double overlap = 0;    // 1 - TV: the share that rejection sampling accepts
  double bound = 0;      // (1 - TV) / (1 + TV)
  double one_hot = 0;    // the drafter's likeliest token, as measured
  double likeliest = 0;  // its probability in the target distribution
};

constexpr int32_t kNumPairs = 24;
constexpr int32_t kDrawsPerPair = 500;

void add(const Pair& pair, float temperature, Shares& shares) {
  const std::vector<double> p = softmax(pair.target, temperature);
  const std::vector<double> q = softmax(pair.drafter, temperature);
  double overlap = 0;
  for (size_t i = 0; i < kVocab; ++i) {
    overlap += std::min(p[i], q[i]);
    double sum = 0;
    for (size_t j = 0; j < kVocab; ++j) sum += std::max(p[j] / p[i], q[j] / q[i]);
    shares.coupled += 1 / sum / kNumPairs;
  }
  shares.overlap += overlap / kNumPairs;
  shares.bound += overlap / (2 - overlap) / kNumPairs;
  const auto best = static_cast<size_t>(std::max_element(pair.drafter.begin(), pair.drafter.end()) -
                                        pair.drafter.begin());
  shares.likeliest += p[best] / kNumPairs;
  Sampler sampler;
  const SamplerState state;
  SamplingParams params;
  params.temperature = temperature;
  params.seed = 11;
  const auto draw = [&](const Row& row, int32_t position) {
    const auto out =
        sampler.sample({.logits = row, .params = params, .state = state, .position = position});
    EXPECT_TRUE(out.ok());
    return out->token_id;
  };
  for (int32_t position = 0; position < kDrawsPerPair; ++position) {
    const TokenId sampled = draw(pair.target, position);
    shares.accepted += sampled == draw(pair.drafter, position);
    shares.one_hot += sampled == static_cast<TokenId>(best);
  }
}

Shares measure(float noise, float temperature) {
  std::mt19937 rng(17);
  Shares shares;
  for (int32_t i = 0; i < kNumPairs; ++i) add(random_pair(rng, noise), temperature, shares);
  shares.accepted /= kNumPairs * kDrawsPerPair;
  shares.one_hot /= kNumPairs * kDrawsPerPair;
  return shares;
}

double four_sigma(double share) {
  return 4 * std::sqrt(share * (1 - share) / (kNumPairs * kDrawsPerPair));
}

// A draft that is not drawn is right as often as the model's probability of it. One that is drawn
// with the same noise comes close to the bound for two distributions; a poor drafter, the last one,
// is further off.
TEST(CoupledDraws, ComeOutAsOftenAsTwoDistributionsAllow) {
  for (const float noise : {0.2f, 0.5f, 0.9f}) {
    for (const float temperature : {0.3f, 0.7f, 1.0f}) {
      SCOPED_TRACE(testing::Message() << "noise " << noise << ", temperature " << temperature);
      const Shares shares = measure(noise, temperature);
      EXPECT_NEAR(shares.accepted, shares.coupled, four_sigma(shares.coupled));
      EXPECT_GE(shares.accepted, shares.bound);
      if (noise < 0.9f) {
        EXPECT_GE(shares.accepted, 0.92 * shares.overlap);
      }
      EXPECT_NEAR(shares.one_hot, shares.likeliest, four_sigma(shares.likeliest));
    }
  }
}

}  // namespace
}  // namespace quire
