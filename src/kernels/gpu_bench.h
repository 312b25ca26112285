// Measures a GPU's kernels on the shapes of real models, and puts beside every figure the bound by
// the limits that were measured in the same run: bytes by reading or copying 1 GiB, whichever is
// faster, arithmetic by a bf16 product of 8192 x 8192 x 8192.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "kernels/bench/kernels_bench.h"

namespace quire {

struct GpuBenchOptions {
  std::string filter;                        // only rows whose name contains it
  int64_t memory_bytes = int64_t{24} << 30;  // most that is taken; half of what is free at most
  bool deterministic = true;                 // as GpuStream
};

// Calls on_row as soon as each row is measured, then returns all of them. A row is the median of
// replays of a graph of calls that go through memory in turn, so that no cache helps; best_us is
// not given. An error: the device failed, or it has not 12 GiB free for all rows.
Result<std::vector<KernelBenchRow>> run_gpu_kernel_bench(
    Device& device, const GpuBenchOptions& options,
    const std::function<void(const KernelBenchRow&)>& on_row);

// What the device reaches now.
struct GpuLimits {
  double bytes_per_s = 0;
  double bf16_flop_per_s = 0;
};
// Takes the memory that `options` allows for as long as it runs.
Result<GpuLimits> probe_gpu_limits(Device& device, const GpuBenchOptions& options);

}  // namespace quire
