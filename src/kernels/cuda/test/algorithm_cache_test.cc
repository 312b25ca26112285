#include "kernels/cuda/linear/library/algorithm_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "tests/support/temp_folder.h"

namespace quire::cuda {
namespace {

constexpr const char* kIdentity = "NVIDIA H200, sm_90, 132 SMs; cuBLASLt 130002";

MatmulKey random_key(std::mt19937& rng) {
  return {.n = 1 + static_cast<int64_t>(rng() % 5),
          .k = 1 + static_cast<int64_t>(rng() % 100000),
          .rows = 1 + static_cast<int64_t>(rng() % 4),
          .x_stride = static_cast<int64_t>(rng()),
          .y_stride = static_cast<int64_t>(rng()),
          .y_type = rng() % 2 ? DType::kF32 : DType::kBF16,
          .has_bias = rng() % 2 == 0,
          .accumulates = rng() % 2 == 0,
          .deterministic = rng() % 2 == 0,
          .is_fp8 = rng() % 2 == 0};
}

MeasuredAlgorithm random_algorithm(std::mt19937& rng) {
  MeasuredAlgorithm algorithm;
  for (uint64_t& word : algorithm.words) word = uint64_t{rng()} << 32 | rng();
  algorithm.fuses_bias = rng() % 2 == 0;
  algorithm.microseconds = static_cast<float>(rng() % 100000) / 7.0f;
  return algorithm;
}

// Compares the cache with a map, through text and back.
TEST(AlgorithmCache, KeepsWhatWasPut) {
  std::mt19937 rng(3);
  for (int run = 0; run < 20; ++run) {
    AlgorithmCache cache(kIdentity);
    std::map<MatmulKey, MeasuredAlgorithm> want;
    for (auto i = rng() % 30; i > 0; --i) {
      const MatmulKey key = random_key(rng);
      want[key] = random_algorithm(rng);
      cache.put(key, want[key]);
    }
    AlgorithmCache again(kIdentity);
    ASSERT_TRUE(again.add_text(cache.to_text()).ok());
    EXPECT_EQ(again.size(), want.size());
    for (const auto& [key, algorithm] : want) {
      ASSERT_NE(again.find(key), nullptr);
      EXPECT_EQ(*again.find(key), algorithm);
    }
    EXPECT_EQ(again.to_text(), cache.to_text());
  }
}

// Any changed, lost or added byte is noticed, and then nothing is taken over.
TEST(AlgorithmCache, NoticesDamage) {
  std::mt19937 rng(4);
  AlgorithmCache cache(kIdentity);
  for (int i = 0; i < 3; ++i) cache.put(random_key(rng), random_algorithm(rng));
  const std::string text = cache.to_text();
  const auto expect_refused = [](const std::string& damaged) {
    AlgorithmCache other(kIdentity);
    EXPECT_EQ(other.add_text(damaged).code(), StatusCode::kDataLoss) << damaged;
    EXPECT_EQ(other.size(), 0u);
  };
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    expect_refused(damaged);
    expect_refused(text.substr(0, at));
    expect_refused(text.substr(0, at) + "7" + text.substr(at));
  }
  expect_refused(text + "\n");
  AlgorithmCache other_library("NVIDIA H200, sm_90, 132 SMs; cuBLASLt 130003");
  EXPECT_EQ(other_library.add_text(text).code(), StatusCode::kDataLoss);
}

TEST(AlgorithmCache, IsAFilePerDeviceAndLibrary) {
  const test::TempFolder folder;
  const std::filesystem::path dir = folder / "sub";
  std::mt19937 rng(5);
  AlgorithmCache cache(kIdentity), other("another GPU");
  EXPECT_EQ(cache.read(dir.string()).code(), StatusCode::kNotFound);
  const MatmulKey key = random_key(rng);
  cache.put(key, random_algorithm(rng));
  ASSERT_TRUE(cache.write(dir.string()).ok());
  ASSERT_TRUE(other.write(dir.string()).ok());
  AlgorithmCache again(kIdentity);
  ASSERT_TRUE(again.read(dir.string()).ok());
  EXPECT_EQ(*again.find(key), *cache.find(key));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2);  // no partial files
}

TEST(AlgorithmCache, TakesTheFastestUnlessTheFirstIsAsGood) {
  const auto choose = [](std::vector<float> times) { return fastest(times); };
  EXPECT_EQ(choose({10.0f}), 0);
  EXPECT_EQ(choose({10.0f, 9.8f, 9.9f}), 0);
  EXPECT_EQ(choose({10.0f, 9.0f, 8.9f}), 2);
  EXPECT_EQ(choose({-1.0f, 9.0f, 8.99f}), 2);
  EXPECT_EQ(choose({-1.0f, -1.0f}), -1);
}

}  // namespace
}  // namespace quire::cuda
