#include "exec/gpu/gpu_memory_plan.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

MemoryPlan plan_of_8b() {
  MemoryPlan plan;
  plan.weights = 16 * kGiB;
  plan.activations = kGiB;
  plan.block_bytes = 2 << 20;
  return plan;
}

TEST(GpuMemoryPlan, KvTakesWhatUtilizationLeaves) {
  MemoryPlan plan = plan_of_8b();
  ASSERT_TRUE(plan_gpu_memory({.total_bytes = 140 * kGiB,
                               .free_bytes = 138 * kGiB,
                               .utilization = 0.9,
                               .useful_kv_bytes = 1000 * kGiB},
                              plan)
                  .ok());
  // 126 GiB are allowed, others use 2, the driver takes half of one.
  EXPECT_EQ(plan.budget, 124 * kGiB);
  EXPECT_EQ(plan.kv_cache, 124 * kGiB - 17 * kGiB - kGiB / 2);
}

TEST(GpuMemoryPlan, NoMoreThanRequestsCanFill) {
  MemoryPlan plan = plan_of_8b();
  ASSERT_TRUE(
      plan_gpu_memory(
          {.total_bytes = 140 * kGiB, .free_bytes = 140 * kGiB, .useful_kv_bytes = 3 * kGiB}, plan)
          .ok());
  EXPECT_EQ(plan.kv_cache, 3 * kGiB);
}

TEST(GpuMemoryPlan, SizeByHandIsTaken) {
  MemoryPlan plan = plan_of_8b();
  ASSERT_TRUE(plan_gpu_memory(
                  {.total_bytes = 24 * kGiB, .free_bytes = 20 * kGiB, .kv_cache_bytes = kGiB}, plan)
                  .ok());
  EXPECT_EQ(plan.kv_cache, kGiB);
  EXPECT_EQ(plan.budget, 0);
}

TEST(GpuMemoryPlan, TooSmallSaysWhatTakesHowMuch) {
  MemoryPlan plan = plan_of_8b();
  const Status status = plan_gpu_memory(
      {.total_bytes = 16 * kGiB, .free_bytes = 15 * kGiB, .useful_kv_bytes = kGiB}, plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "GPU memory: of 16384 MiB, 13721 MiB may be used (gpu-memory-utilization 0.9, 1024 MiB "
            "used by others); weights take 16384 MiB, workspace 1024 MiB and the driver 512 MiB, "
            "which leaves 0 MiB for the KV cache: at least 5 MiB are needed");
}

TEST(GpuMemoryPlan, AdaptersAreCounted) {
  MemoryPlan plan = plan_of_8b();
  const GpuMemoryRequest request{
      .total_bytes = 24 * kGiB, .free_bytes = 24 * kGiB, .useful_kv_bytes = 24 * kGiB};
  ASSERT_TRUE(plan_gpu_memory(request, plan).ok());
  const int64_t without = plan.kv_cache;
  plan.adapters = kGiB;
  ASSERT_TRUE(plan_gpu_memory(request, plan).ok());
  EXPECT_EQ(plan.kv_cache, without - kGiB);
  plan.adapters = 8 * kGiB;
  const Status status = plan_gpu_memory(request, plan);
  EXPECT_NE(status.message().find("weights take 16384 MiB, adapters 8192 MiB, workspace"),
            std::string::npos)
      << status.message();
}

TEST(GpuMemoryPlan, ASizeByHandMayBeTooSmall) {
  MemoryPlan plan = plan_of_8b();
  const Status status = plan_gpu_memory(
      {.total_bytes = 24 * kGiB, .free_bytes = 20 * kGiB, .kv_cache_bytes = 1 << 20}, plan);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("a KV cache of 1 MiB was asked for"), std::string::npos);
  const Status too_large = plan_gpu_memory(
      {.total_bytes = 24 * kGiB, .free_bytes = 20 * kGiB, .kv_cache_bytes = 4 * kGiB}, plan);
  EXPECT_EQ(
      too_large.message(),
      "GPU memory: weights take 16384 MiB, workspace 1024 MiB and the KV cache that was asked "
      "for 4096 MiB; 20480 MiB are free");
}

}  // namespace
}  // namespace quire
