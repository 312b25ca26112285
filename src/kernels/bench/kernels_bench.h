// Measures the kernels on the shapes of real models, and reports the hardware's bound beside every
// figure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/stream.h"
#include "kernels/bench/hardware_peaks.h"

namespace quire {

struct KernelBenchOptions {
  std::string filter;            // only rows whose name contains it
  std::vector<int64_t> rows;     // of activations in products; empty: decode batches and prompts
  double seconds_per_row = 0.2;  // measuring time; the median of single calls is reported
};

struct KernelBenchRow {
  std::string name;     // "linear llama-1b down m=8"
  double us = 0;        // median of one call
  double best_us = 0;   // fastest call: the time when nothing else runs
  double gb_per_s = 0;  // bytes that must move / us (0 for ops that compute more than they move)
  double gflop_per_s = 0;
  double bound_us =
      0;               // max(bytes / bandwidth, flops / peak) with the peaks probed in the same run
  double percent = 0;  // bound_us / us
  double best_percent = 0;
};

// Calls on_row as soon as each row is measured, then returns all of them. Needs about 1.2 GB of
// memory.
std::vector<KernelBenchRow> run_kernel_bench(
    HostStream& stream, const KernelBenchOptions& options,
    const std::function<void(const KernelBenchRow&)>& on_row);

}  // namespace quire
