#include "kernels/gpu_bench.h"

#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

class GpuBench : public gpu_test::GpuTest {};

// A row that the emulated device can run too.
TEST_F(GpuBench, MeasuresTheRowsThatAreWantedAgainstMeasuredLimits) {
  size_t num_told = 0;
  const auto rows = run_gpu_kernel_bench(
      *device_, {.filter = "rms_norm 4096 m=1", .memory_bytes = int64_t{8} << 20},
      [&](const KernelBenchRow&) { ++num_told; });
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->size(), 3u);  // no product was wanted: its limit is not measured
  EXPECT_EQ(num_told, 3u);
  EXPECT_EQ((*rows)[0].name, "limit: read");
  EXPECT_EQ((*rows)[1].name.find("limit: copy"), 0u);
  EXPECT_NEAR(std::max((*rows)[0].percent, (*rows)[1].percent), 100.0, 1e-9);
  const KernelBenchRow& row = (*rows)[2];
  EXPECT_EQ(row.name, "rms_norm 4096 m=1");
  EXPECT_GT(row.us, 0.0);
  EXPECT_NEAR(row.percent, 100.0 * row.bound_us / row.us, 1e-9);
}

}  // namespace
}  // namespace quire
