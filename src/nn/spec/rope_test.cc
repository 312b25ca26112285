#include "nn/spec/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "base/threads/thread_team.h"
#include "device/isa.h"
#include "device/stream.h"

namespace quire {
namespace {

TEST(Rope, DefaultFrequencies) {
  const auto rope = make_rope({}, 8, 128);
  ASSERT_TRUE(rope.ok());
  ASSERT_EQ(rope->inv_freq.size(), 4u);
  EXPECT_DOUBLE_EQ(rope->inv_freq[0], 1.0);
  EXPECT_NEAR(rope->inv_freq[1], 0.1, 1e-12);
  EXPECT_NEAR(rope->inv_freq[3], 0.001, 1e-12);
  EXPECT_DOUBLE_EQ(rope->scale, 1.0);
}

TEST(Rope, AnOddDimensionRotatesOneMore) {
  const auto rope = make_rope({}, 5, 128);
  ASSERT_TRUE(rope.ok()) << rope.status().message();
  EXPECT_EQ(rope->rotary_dim, 6);
  ASSERT_EQ(rope->inv_freq.size(), 3u);
  EXPECT_NEAR(rope->inv_freq[2], std::pow(10000.0, -4.0 / 5.0), 1e-12);
}

TEST(Rope, LinearDividesAndStoredFactorsDivide) {
  const auto linear = make_rope({.type = RopeType::kLinear, .factor = 4.0}, 4, 128);
  ASSERT_TRUE(linear.ok());
  EXPECT_DOUBLE_EQ(linear->inv_freq[0], 0.25);
  RopeConfig config;
  config.freq_factors = {2.0, 8.0};
  const auto stored = make_rope(config, 4, 128);
  ASSERT_TRUE(stored.ok());
  EXPECT_DOUBLE_EQ(stored->inv_freq[0], 0.5);
}

TEST(Rope, SectionsTurnByTimeRowAndColumn) {
  RopeConfig config{.sections = {2, 1, 1}};
  const auto after = make_rope(config, 8, 128);
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(after->pair_axes, (std::vector<uint8_t>{0, 0, 1, 2}));
  config.sections_in_turn = true;
  EXPECT_EQ(make_rope(config, 8, 128)->pair_axes, (std::vector<uint8_t>{0, 1, 2, 0}));
  config.sections = {24, 20, 20};  // of Qwen3-VL
  const auto turns = make_rope(config, 128, 128);
  EXPECT_EQ(turns->pair_axes[58], 1);
  EXPECT_EQ(turns->pair_axes[59], 2);
  EXPECT_EQ(turns->pair_axes[61], 0) << "rows and columns have ended";
  for (const std::vector<int64_t>& wrong :
       std::vector<std::vector<int64_t>>{{32, 32}, {64, 64, 64}, {-1, 33, 32}}) {
    config.sections = wrong;
    EXPECT_EQ(make_rope(config, 128, 128).status().code(), StatusCode::kInvalidArgument);
  }
}

// A pair that is rotated by one of a token's positions equals that of a table for this position.
TEST(Rope, PairsFollowTheirAxis) {
  std::mt19937 random(3);
  auto team = ThreadTeam::create({.num_threads = 3});
  ASSERT_TRUE(team.ok());
  HostStream stream(*team, best_isa());
  for (const auto& [num_tokens, rotary_dim] : {std::pair{1, 4}, {3, 10}, {700, 64}}) {
    RopeSpec rope = make_rope({}, rotary_dim, 128).value();
    const auto pairs = static_cast<size_t>(rotary_dim / 2);
    for (size_t i = 0; i < pairs; ++i) rope.pair_axes.push_back(static_cast<uint8_t>(i * 7 % 3));
    const auto tokens = static_cast<size_t>(num_tokens);
    std::vector<int32_t> axes(3 * tokens), positions(tokens);
    for (int32_t& position : axes) position = static_cast<int32_t>(random() % 100000);
    std::vector<float> cos(tokens * pairs), sin(cos.size()), one_cos(cos.size()),
        one_sin(cos.size());
    rope_tables(stream, rope, {positions.data(), axes.data()}, num_tokens, cos.data(), sin.data(),
                nullptr);
    for (size_t axis = 0; axis < 3; ++axis) {
      for (size_t t = 0; t < tokens; ++t) positions[t] = axes[3 * t + axis];
      rope_tables(stream, rope, {positions.data(), nullptr}, num_tokens, one_cos.data(),
                  one_sin.data(), nullptr);
      for (size_t i = 0; i < cos.size(); ++i) {
        if (rope.pair_axes[i % pairs] != axis) continue;
        ASSERT_EQ(cos[i], one_cos[i]);
        ASSERT_EQ(sin[i], one_sin[i]);
      }
    }
  }
}

TEST(Rope, Llama3KeepsShortWavesAndDividesLongOnes) {
  RopeConfig config{.type = RopeType::kLlama3, .theta = 500000.0, .factor = 8.0};
  config.original_max_position_embeddings = 8192;
  const auto rope = make_rope(config, 128, 131072);
  ASSERT_TRUE(rope.ok());
  EXPECT_DOUBLE_EQ(rope->inv_freq[0], 1.0);
  const double last = 1.0 / std::pow(500000.0, 126.0 / 128.0);
  EXPECT_NEAR(rope->inv_freq[63], last / 8.0, 1e-15);
}

TEST(Rope, LongRopeFollowsTheServedLength) {
  RopeConfig config{.type = RopeType::kLongRope, .factor = 32.0};
  config.original_max_position_embeddings = 4096;
  config.short_factor = {1.0, 1.0};
  config.long_factor = {2.0, 4.0};
  const auto within = make_rope(config, 4, 4096);
  const auto beyond = make_rope(config, 4, 4097);
  ASSERT_TRUE(within.ok() && beyond.ok());
  EXPECT_DOUBLE_EQ(within->inv_freq[0], 1.0);
  EXPECT_DOUBLE_EQ(beyond->inv_freq[0], 0.5);
  EXPECT_NEAR(within->scale, std::sqrt(1.0 + std::log(32.0) / std::log(4096.0)), 1e-12);
}

TEST(Rope, YarnBlendsAndScales) {
  RopeConfig config{.type = RopeType::kYarn, .factor = 4.0};
  config.original_max_position_embeddings = 32768;
  const auto rope = make_rope(config, 64, 131072);
  ASSERT_TRUE(rope.ok());
  EXPECT_DOUBLE_EQ(rope->inv_freq[0], 1.0);  // fast rotation: kept
  const double last = 1.0 / std::pow(10000.0, 62.0 / 64.0);
  EXPECT_NEAR(rope->inv_freq[31], last / 4.0, 1e-12);  // slow rotation: divided
  EXPECT_NEAR(rope->scale, 0.1 * std::log(4.0) + 1.0, 1e-12);
}

TEST(Rope, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(make_rope({}, 0, 128).ok());
  EXPECT_FALSE(make_rope({.type = RopeType::kYarn, .factor = 2.0}, 7, 128).ok());
  EXPECT_FALSE(make_rope({.theta = 0.5}, 8, 128).ok());
  RopeConfig config{.type = RopeType::kLongRope, .factor = 2.0};
  config.original_max_position_embeddings = 16;
  config.short_factor = {1.0};
  config.long_factor = {1.0, 1.0};
  const auto rope = make_rope(config, 4, 128);
  ASSERT_FALSE(rope.ok());
  EXPECT_NE(rope.status().message().find("short_factor: expected 2 numbers"), std::string::npos)
      << rope.status().message();
}

}  // namespace
}  // namespace quire
