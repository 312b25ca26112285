#include "kernels/gpu_bench.h"

#include <algorithm>

#include "kernels/cuda/gpu_bench_table.h"
#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

class GpuBench : public gpu_test::GpuTest {};

// Measures a row that the emulated device can run too.
TEST_F(GpuBench, MeasuresTheRowsThatAreWantedAgainstMeasuredLimits) {
  size_t num_told = 0;
  const auto rows = run_gpu_kernel_bench(
      *device_, {.filter = "rms_norm 4096 m=1", .memory_bytes = int64_t{8} << 20},
      [&](const KernelBenchRow&) { ++num_told; });
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->size(), 3u);  // no product was wanted, so their limit is not measured
  EXPECT_EQ(num_told, 3u);
  EXPECT_EQ((*rows)[0].name, "limit: read");
  EXPECT_EQ((*rows)[1].name.find("limit: copy"), 0u);
  EXPECT_NEAR(std::max((*rows)[0].percent, (*rows)[1].percent), 100.0, 1e-9);
  const KernelBenchRow& row = (*rows)[2];
  EXPECT_EQ(row.name, "rms_norm 4096 m=1");
  EXPECT_GT(row.us, 0.0);
  EXPECT_NEAR(row.percent, 100.0 * row.bound_us / row.us, 1e-9);
}

// A call's output is never another call's input, which would soon hold infinities.
TEST_F(GpuBench, ResultsLieApartFromInputs) {
  const GpuBenchOptions options{.memory_bytes = int64_t{1} << 20};
  const std::function<void(const KernelBenchRow&)> on_row;
  auto table = cuda::GpuBenchTable::create(*device_, options, on_row);
  ASSERT_TRUE(table.ok());
  constexpr int64_t kBytes = 100'000;
  struct Range {
    std::byte* begin;
    std::byte* end;
  };
  const auto extend = [](Range& range, std::byte* piece) {
    range = {std::min(range.begin, piece), std::max(range.end, piece + kBytes)};
  };
  Range inputs{table->next(kBytes), nullptr};
  Range results{table->result(kBytes), nullptr};
  for (int i = 0; i < 40; ++i) {  // several times around
    extend(inputs, table->next(kBytes));
    extend(results, table->result(kBytes));
  }
  EXPECT_TRUE(inputs.end <= results.begin || results.end <= inputs.begin);
}

TEST_F(GpuBench, TheFirstFailureIsWhatComesOut) {
  const GpuBenchOptions options{.memory_bytes = int64_t{1} << 20};
  const std::function<void(const KernelBenchRow&)> on_row;
  auto table = cuda::GpuBenchTable::create(*device_, options, on_row);
  ASSERT_TRUE(table.ok());
  const auto fail = [&] { device_->stream().fail(internal_error("no such kernel")); };
  bool was_called = false;
  table->measure({.name = "fails", .bytes = 1}, fail);
  table->measure({.name = "comes later", .bytes = 1}, [&] { was_called = true; });
  EXPECT_FALSE(was_called);
  EXPECT_EQ(table->take_rows().status().message(), "no such kernel");
}

}  // namespace
}  // namespace quire
