#include "facade/parallel/gpu_ordinals.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

using Ordinals = std::vector<int32_t>;

TEST(GpuOrdinals, AreTheFirstOnesOrThoseThatAreNamed) {
  EXPECT_EQ(*gpu_ordinals("", {}, 1), Ordinals({0}));
  EXPECT_EQ(*gpu_ordinals("", {.num_ranks = 3}, 8), Ordinals({0, 1, 2}));
  EXPECT_EQ(*gpu_ordinals("3", {}, 4), Ordinals({3}));
  EXPECT_EQ(*gpu_ordinals("2,0", {.num_ranks = 2}, 4), Ordinals({2, 0}));
  EXPECT_EQ(*gpu_ordinals("0,0", {.num_stages = 2}, 1), Ordinals({0, 0}));
  EXPECT_EQ(*gpu_ordinals("", {.num_engines = 2, .num_stages = 2}, 8), Ordinals({0, 1, 2, 3}));
}

TEST(GpuOrdinals, FewerGpusThanRanksNamesBoth) {
  const Status status = gpu_ordinals("", {.num_ranks = 4}, 2).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            "GPUs: expected one for each of 4 ranks, got 2 (--devices may name a GPU several "
            "times)");
}

TEST(GpuOrdinals, RefusesWhatIsNoGpu) {
  for (const std::string text : {"2", "-1", "x", "0,", ",0", "0,,1", "1x", "99999999999"}) {
    const Status status = gpu_ordinals(text, {.num_ranks = 2}, 2).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("[0, 2), got "), std::string::npos) << status.message();
  }
  EXPECT_EQ(gpu_ordinals("0,1,1", {.num_ranks = 2}, 2).status().message(),
            "--devices: expected a GPU for each of 2 ranks, got 3: 0,1,1");
  EXPECT_EQ(gpu_ordinals("0", {2, 3, 1}, 2).status().message(),
            "--devices: expected a GPU for each of 2 engines x 3 stages x 1 rank, got 1: 0");
}

}  // namespace
}  // namespace quire
