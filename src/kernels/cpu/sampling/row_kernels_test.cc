#include "kernels/cpu/sampling/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/rng.h"
#include "device/isa.h"
#include "kernels/cpu/sampling/row_scan.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Isa> isas() {
  std::vector<Isa> here;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (has_isa(isa)) here.push_back(isa);
  }
  return here;
}

std::vector<float> normal_row(uint32_t seed, size_t size, float deviation) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> row(size);
  for (float& x : row) x = normal(rng);
  return row;
}

TEST(RowKernels, ScanFindsEveryChunksGreatestValue) {
  for (const Isa isa : isas()) {
    RowScanner scanner(isa);
    for (size_t size : {1u, 15u, 16u, 63u, 64u, 65u, 1000u, 4097u}) {
      auto row = normal_row(static_cast<uint32_t>(size), size, 3);
      row[size / 2] = -50;
      const ScannedRow scanned = scanner.scan(row);
      EXPECT_TRUE(scanner.all_finite());
      ASSERT_EQ(scanned.chunk_max.size(), (size + 63) / 64);
      for (size_t c = 0; c < scanned.chunk_max.size(); ++c) {
        const auto chunk = scanned.chunk(c);
        ASSERT_EQ(scanned.chunk_max[c], *std::max_element(chunk.begin(), chunk.end()));
      }
      EXPECT_EQ(scanned.max(), *std::max_element(row.begin(), row.end()));
    }
  }
}

TEST(RowKernels, ScanFindsNonFiniteValuesAnywhere) {
  for (const Isa isa : isas()) {
    RowScanner scanner(isa);
    for (size_t size : {1u, 15u, 16u, 33u, 64u, 130u}) {
      for (size_t at = 0; at < size; ++at) {
        std::vector<float> row(size, -3.0f);
        for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
          row[at] = bad;
          scanner.scan(row);
          ASSERT_FALSE(scanner.all_finite()) << to_string(isa) << " " << size << " " << at;
        }
      }
    }
  }
}

TEST(RowKernels, SumsOfExponentialsAreExactEnoughAndTheSameEverywhere) {
  for (const size_t size : {1u, 17u, 64u, 1000u, 9000u}) {
    const auto row = normal_row(5, size, 4);
    const float max = *std::max_element(row.begin(), row.end());
    for (const float low : {-kInfinity, -6.0f, 0.0f}) {
      const LogitScale scale{.max = max, .inverse_temperature = 1.25f};
      double exact = 0;
      for (const float x : row) {
        if (scale.of(x) >= low) exact += std::exp(static_cast<double>(scale.of(x)));
      }
      std::vector<double> totals;
      for (const Isa isa : isas()) {
        RowScanner scanner(isa);
        totals.push_back(scanner.exp_total(scanner.scan(row), scale, low));
        EXPECT_NEAR(totals.back() / exact, 1.0, 1e-6);
        EXPECT_EQ(totals.back(), totals.front()) << to_string(isa);
        const float lows[8] = {low, -1, -2, -3, -4, -5, -6, -7};
        double mass[8];
        scanner.kernels().mass_above(row.data(), static_cast<int64_t>(size), scale, lows, mass);
        EXPECT_NEAR(mass[0] / exact, 1.0, 1e-5);
        for (int k = 2; k < 8; ++k) EXPECT_GE(mass[k], mass[k - 1]);
      }
    }
  }
}

TEST(RowKernels, CollectsWhatIsInRange) {
  for (const Isa isa : isas()) {
    for (const size_t size : {1u, 63u, 64u, 77u, 5000u}) {
      const auto row = normal_row(6, size, 2);
      RowScanner scanner(isa);
      const ScannedRow scanned = scanner.scan(row);
      const LogitScale scale{.max = scanned.max(), .inverse_temperature = 0.5f};
      for (const ScaledRange range :
           {ScaledRange{-2.0f, -0.5f}, {-1.0f, kInfinity}, {1.0f, 2.0f}}) {
        std::vector<float> expected;
        for (const float x : row) {
          const float scaled = scale.of(x);
          if (scaled >= range.low && scaled < range.below) expected.push_back(scaled);
        }
        const auto found = scanner.collect(scanned, scale, range);
        EXPECT_EQ(std::vector<float>(found.begin(), found.end()), expected) << to_string(isa);
      }
    }
  }
}

TEST(RowKernels, SplitsTheMassAroundARange) {
  for (const size_t size : {1u, 63u, 64u, 77u, 5000u, 9001u}) {
    const auto row = normal_row(7, size, 3);
    for (const ScaledRange range :
         {ScaledRange{-4.0f, -1.5f}, {-2.0f, -1.9f}, {-8.0f, kInfinity}}) {
      std::vector<RowScanner::Split> splits;
      std::vector<std::vector<float>> inside;
      for (const Isa isa : isas()) {
        SCOPED_TRACE(to_string(isa));
        RowScanner scanner(isa);
        const ScannedRow scanned = scanner.scan(row);
        const LogitScale scale{.max = scanned.max(), .inverse_temperature = 0.75f};
        double above = 0, in = 0;
        for (const float x : row) {
          const double weight = std::exp(static_cast<double>(scale.of(x)));
          if (scale.of(x) >= range.below) above += weight;
          if (scale.of(x) >= range.low && scale.of(x) < range.below) in += weight;
        }
        // Chunks below the bound are not written: the buffer's old contents must not be read.
        scanner.weigh(scanned, LogitScale{.max = scanned.max() + 1}, -kInfinity);
        const double total = scanner.weigh(scanned, scale, -8.0f);
        EXPECT_EQ(total, scanner.exp_total(scanned, scale, -8.0f));
        EXPECT_EQ(total, scanner.weighed(1));
        splits.push_back(scanner.split(scanned, scale, range));
        EXPECT_NEAR(splits.back().mass_above, above, 1e-5 * total);
        EXPECT_NEAR(splits.back().mass_inside, in, 1e-5 * total);
        inside.emplace_back(splits.back().inside.begin(), splits.back().inside.end());
        const auto found = scanner.collect(scanned, scale, range);
        EXPECT_EQ(inside.back(), std::vector<float>(found.begin(), found.end()));
        EXPECT_EQ(splits.back().mass_above, splits.front().mass_above);
        EXPECT_EQ(splits.back().mass_inside, splits.front().mass_inside);
        EXPECT_EQ(inside.back(), inside.front());
      }
    }
  }
}

// Every chunk whose token would win must be named, and few others.
TEST(RowKernels, LeadingChunksHoldEveryTokenThatCanWin) {
  int named = 0, looked_at = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const size_t size = 1 + seed * 13 % 1024;
    const auto row = normal_row(seed, size, 2);
    RowScanner scanner(best_isa());
    const ScannedRow scanned = scanner.scan(row);
    std::vector<float> tops(scanned.chunk_max.begin(), scanned.chunk_max.end());
    const LogitScale scale{.max = scanned.max()};
    const float best = static_cast<float>(seed % 12);
    std::vector<uint32_t> found;
    for (const Isa isa : isas()) {
      found.push_back(
          row_kernels(isa).leading_chunks({.seed = seed,
                                           .position = 3,
                                           .first_chunk = 0,
                                           .num_chunks = static_cast<int64_t>(tops.size()),
                                           .chunk_max = tops.data(),
                                           .scale = scale,
                                           .low = -10.0f,
                                           .best = best}));
      EXPECT_EQ(found.back(), found.front()) << to_string(isa);
    }
    for (size_t i = 0; i < size; ++i) {
      const auto words = philox4x32(seed, {3, 0, static_cast<uint32_t>(i / 4), 0});
      const double u = (static_cast<double>(words[i % 4]) + 0.5) / 4294967296.0;
      const double score = static_cast<double>(scale.of(row[i])) - std::log(-std::log(u));
      if (scale.of(row[i]) >= -10.0f && score >= static_cast<double>(best)) {
        ASSERT_NE(found[0] & (1u << (i / 64)), 0u) << i;
      }
    }
    named += __builtin_popcount(found[0]);
    looked_at += static_cast<int>(tops.size());
  }
  EXPECT_LT(named, looked_at / 2);
}

}  // namespace
}  // namespace quire
