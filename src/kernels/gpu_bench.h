// Measures a GPU's kernels on the shapes of real models, and reports with each figure the bound
// that follows from limits measured in the same run: bandwidth from reading or copying 1 GiB,
// whichever is faster, and arithmetic from a bf16 product of 8192 x 8192 x 8192.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "kernels/bench/kernels_bench.h"

namespace quire {

struct GpuBenchOptions {
  std::string filter;  // only rows whose name contains it
  int64_t memory_bytes = int64_t{24}
                         << 30;  // the most to allocate; never over half of the free memory
  bool deterministic = true;     // as in GpuStream
};

// Calls on_row as soon as a row is measured, and returns all rows. A row is the median of replays
// of a graph, whose calls use different memory in turn, so that no cache helps; best_us is not set.
// Returns an error if the device fails or has less than 12 GiB free for all rows.
Result<std::vector<KernelBenchRow>> run_gpu_kernel_bench(
    Device& device, const GpuBenchOptions& options,
    const std::function<void(const KernelBenchRow&)>& on_row);

// The speeds that a device reaches.
struct GpuLimits {
  double bytes_per_s = 0;
  double bf16_flop_per_s = 0;
};
// Measures the limits. It allocates the memory that `options` allows until it returns.
Result<GpuLimits> probe_gpu_limits(Device& device, const GpuBenchOptions& options);

}  // namespace quire
