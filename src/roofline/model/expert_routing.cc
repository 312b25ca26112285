#include "roofline/model/expert_routing.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "roofline/model/layer_plan.h"

namespace quire {
namespace {

// Experts are divided into this many classes of equal size, which differ in how often they are
// picked.
constexpr int kNumClasses = 32;

struct Spread {
  double deviation = 0;  // of how often experts are picked, relative to the mean
  double skewness = 0;
};

// Computes how often each class is picked, relative to the mean. The power law is cut off where one
// expert would have most of the tokens.
Spread draw_classes(double tokens, double skew, std::array<double, kNumClasses>& picked) {
  const double most = std::max(2.0, 0.8 * tokens);
  const double power = std::abs(1 - skew) < 1e-6 ? 1e-6 : 1 - skew;
  const double span = std::pow(most, power) - 1;
  double sum = 0;
  for (int i = 0; i < kNumClasses; ++i) {
    const double quantile = (i + 0.5) / kNumClasses;
    picked[static_cast<size_t>(i)] = std::pow(span * quantile + 1, 1 / power);
    sum += picked[static_cast<size_t>(i)];
  }
  double variance = 0;
  double third = 0;
  for (double& share : picked) {
    share *= kNumClasses / sum;
    variance += (share - 1) * (share - 1) / kNumClasses;
    third += std::pow(share - 1, 3) / kNumClasses;
  }
  const double deviation = std::sqrt(variance);
  return {.deviation = deviation, .skewness = deviation > 0 ? third / std::pow(deviation, 3) : 0};
}

// Returns how many standard deviations above the mean the largest of n normal values is expected
// (Blom), with the logistic approximation of the normal quantile.
double largest_of(double n) {
  if (n <= 1) return 0;
  const double quantile = (n - 0.375) / (n + 0.25);
  return std::log(quantile / (1 - quantile)) / 1.702;
}

// Returns the factor by which the busiest device has more than an even share. Sums over a few
// experts are still skewed, hence the second term of Cornish and Fisher's expansion.
double busiest_share(const Routing& routing, const Spread& spread) {
  const double here = routing.num_experts / routing.num_ranks;
  if (routing.num_ranks <= 1 || routing.num_experts <= 1) return 1;
  const double of_sum = spread.deviation * std::sqrt((routing.num_experts - here) /
                                                     ((routing.num_experts - 1) * here));
  const double normal = largest_of(routing.num_ranks);
  const double largest = normal + (normal * normal - 1) * spread.skewness / (6 * std::sqrt(here));
  return std::clamp(1 + largest * of_sum, 1.0, routing.num_ranks);
}

// Returns the share of experts that have rows, among those with this expected number.
double share_with_rows(const Routing& routing, double expected) {
  if (routing.rounded) return expected >= 0.5 ? 1 : 0;
  return 1 - std::exp(-expected);
}

// Returns the rows in whole tiles of an expert with this expected number. When tokens choose at
// random, half a tile is empty on average, and a few rows take a whole one.
double padded_rows(const Routing& routing, double expected, double height) {
  if (routing.rounded) return std::ceil(std::round(expected) / height) * height;
  const double any = share_with_rows(routing, expected);
  return std::max(height * any, expected + (height - 1) / 2 * any);
}

}  // namespace

ExpertLoad spread_tokens(const Routing& routing, double tokens) {
  const double here = routing.num_experts / routing.num_ranks;
  const double rows = tokens * routing.experts_per_token;
  if (routing.skew <= 0 || rows <= routing.num_experts) {
    const double distinct =
        distinct_experts(routing.num_experts, routing.experts_per_token, tokens);
    return {.rows = rows / routing.num_ranks,
            .distinct = std::max(1.0, distinct / routing.num_ranks)};
  }
  std::array<double, kNumClasses> picked{};
  const double busiest = busiest_share(routing, draw_classes(tokens, routing.skew, picked));
  ExpertLoad load;
  for (const double share : picked) {
    const double expected = std::min(tokens, share * rows / routing.num_experts);
    load.rows += expected * busiest * here / kNumClasses;
    load.distinct += share_with_rows(routing, expected * busiest) * here / kNumClasses;
  }
  load.distinct = std::max(1.0, load.distinct);
  load.rows = std::max(load.rows, load.distinct);
  const double seen = routing.sees_all_rows ? std::max(rows, load.rows) : load.rows;
  const double height = expert_tile_rows(routing.weights, seen / load.distinct);
  double padded = 0;
  for (const double share : picked) {
    const double expected = std::min(tokens, share * rows / routing.num_experts) * busiest;
    padded += padded_rows(routing, expected, height) * here / kNumClasses;
  }
  load.padding = std::max(1.0, padded / load.rows);
  return load;
}

}  // namespace quire
