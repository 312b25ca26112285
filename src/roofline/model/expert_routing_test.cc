#include "roofline/model/expert_routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "roofline/hardware/hardware.h"

namespace quire {
namespace {

Routing routing(double skew, double num_ranks = 1) {
  return {.num_experts = 128, .experts_per_token = 8, .num_ranks = num_ranks, .skew = skew};
}

TEST(ExpertRouting, EvenRoutingIsTheFormula) {
  const ExpertLoad load = spread_tokens(routing(0, 4), 100);
  EXPECT_DOUBLE_EQ(load.rows, 200);
  EXPECT_DOUBLE_EQ(load.distinct, 32 * (1 - std::pow(1 - 8.0 / 128, 100)));
  EXPECT_EQ(load.padding, 0);
}

TEST(ExpertRouting, SkewLeavesExpertsWithoutRowsAndOneDeviceWithMore) {
  for (const double tokens : {32.0, 256.0, 4096.0}) {
    const double distinct = spread_tokens(routing(0), tokens).distinct;
    const double rows = spread_tokens(routing(0, 8), tokens).rows;
    for (const double skew : {0.5, 1.0, 1.01, 1.2}) {
      EXPECT_LT(spread_tokens(routing(skew), tokens).distinct, distinct) << tokens << " " << skew;
      EXPECT_GT(spread_tokens(routing(skew, 8), tokens).rows, 1.05 * rows) << tokens << " " << skew;
      EXPECT_LE(spread_tokens(routing(skew, 8), tokens).rows, tokens * 8);
    }
  }
}

// Compares with a naive model: experts are drawn from the power law and divided at random, and
// tokens choose them at random.
TEST(ExpertRouting, AgreesWithTokensThatAreThrown) {
  constexpr double kSkew = 1.01;
  constexpr int kExperts = 128, kTopK = 8, kRanks = 8, kTokens = 1024, kTrials = 40;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  double rows = 0, distinct = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> weights(kExperts);
    for (double& w : weights) {
      w = std::pow((std::pow(0.8 * kTokens, 1 - kSkew) - 1) * uniform(random) + 1, 1 / (1 - kSkew));
    }
    std::discrete_distribution<int> pick(weights.begin(), weights.end());
    std::vector<int> counts(kExperts);
    for (int i = 0; i < kTokens * kTopK; ++i) ++counts[static_cast<size_t>(pick(random))];
    int most = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      int sum = 0;
      for (int e = rank; e < kExperts; e += kRanks) sum += counts[static_cast<size_t>(e)];
      most = std::max(most, sum);
    }
    rows += static_cast<double>(most) / kTrials;
    distinct +=
        static_cast<double>(kExperts - std::count(counts.begin(), counts.end(), 0)) / kTrials;
  }
  const ExpertLoad busiest = spread_tokens(routing(kSkew, kRanks), kTokens);
  EXPECT_NEAR(busiest.rows, rows, 0.1 * rows);
  EXPECT_NEAR(spread_tokens(routing(kSkew), kTokens).distinct, distinct, 0.1 * distinct);
}

// Tables round the shares, which leaves fewer experts without rows.
TEST(ExpertRouting, RoundedSharesLeaveFewerExpertsEmpty) {
  for (const double tokens : {64.0, 256.0, 1024.0}) {
    Routing drawn = routing(1.01);
    drawn.rounded = true;
    const ExpertLoad table = spread_tokens(drawn, tokens);
    const ExpertLoad thrown = spread_tokens(routing(1.01), tokens);
    EXPECT_GT(table.distinct, thrown.distinct) << tokens;
    EXPECT_DOUBLE_EQ(table.rows, thrown.rows) << tokens;
    EXPECT_GE(table.padding, 1) << tokens;
  }
}

// Kernels of 4-bit weights have their own tile sizes, which are chosen by all rows that a device
// gets.
TEST(ExpertRouting, TilesAreThoseOfTheKernel) {
  const auto rows = [](std::string_view format, double rows_per_expert) {
    return expert_tile_rows(*parse_number_format(format), rows_per_expert);
  };
  EXPECT_EQ(rows("int4", 7), 8);
  EXPECT_EQ(rows("int4", 7.5), 16);
  EXPECT_EQ(rows("int4", 40), 48);
  EXPECT_EQ(rows("int4", 1000), 64);
  EXPECT_EQ(rows("bf16", 3), 16);
  EXPECT_EQ(rows("mxfp4", 65), 128);
  EXPECT_EQ(rows("fp8_block", 1000), 64);

  Routing divided = routing(1.01, 8);
  divided.weights = *parse_number_format("bf16");
  const ExpertLoad all = spread_tokens(divided, 256);
  divided.sees_all_rows = false;
  EXPECT_GT(all.padding, 1.5 * spread_tokens(divided, 256).padding);
}

// Skewed prompts take more time in kernels with large tiles.
TEST(ExpertRouting, UnevenExpertsFillTilesWorse) {
  const ExpertLoad load = spread_tokens(routing(1.01), 1024);
  EXPECT_GT(load.padding, 1.2);
  EXPECT_LT(load.padding, 2.5);
  const Hardware hardware = find_hardware("h100-sxm").value();
  ExpertsWork work{.rows = load.rows,
                   .distinct = load.distinct,
                   .padding = 1,
                   .hidden_size = 2880,
                   .gate_up_rows = 5760,
                   .down_depth = 2880,
                   .weights = *parse_number_format("mxfp4")};
  const double whole = experts_time(work, hardware).predicted_us;
  work.padding = load.padding;
  EXPECT_GT(experts_time(work, hardware).predicted_us, 1.05 * whole);
}

}  // namespace
}  // namespace quire
