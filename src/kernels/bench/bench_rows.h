// The rows of a run of measurements, each with its bound.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/linear.h"
#include "kernels/bench/bench_memory.h"
#include "kernels/bench/kernels_bench.h"

namespace quire::bench {

// The bytes that a call moves and the operations that it computes.
struct BenchWork {
  std::string name;
  double bytes = 0;
  double flops = 0;
  double peak_gflop_per_s = 0;
};

class BenchRows {
 public:
  BenchRows(HostStream& stream, const KernelBenchOptions& options,
            const std::function<void(const KernelBenchRow&)>& on_row)
      : stream_(stream), options_(options), on_row_(on_row), peaks_(probe_peaks(stream)) {
    add({"probe: read bandwidth", peaks_.read_gb_per_s * 1e3, 0, 0}, 1.0, 1.0);
    add({"probe: f32 multiply-add", 0, peaks_.f32_gflop_per_s * 1e3, peaks_.f32_gflop_per_s}, 1.0,
        1.0);
    add({"probe: bf16 multiply-add", 0, peaks_.bf16_gflop_per_s * 1e3, peaks_.bf16_gflop_per_s},
        1.0, 1.0);
    add({"probe: int8 multiply-add", 0, peaks_.int8_gop_per_s * 1e3, peaks_.int8_gop_per_s}, 1.0,
        1.0);
  }

  HostStream& stream() const { return stream_; }
  const HardwarePeaks& peaks() const { return peaks_; }
  double peak_of(ComputeType compute) const {
    switch (compute) {
      case ComputeType::kInt8:
        return peaks_.int8_gop_per_s;
      case ComputeType::kBF16:
        return peaks_.bf16_gflop_per_s;
      case ComputeType::kF32:
        break;
    }
    return peaks_.f32_gflop_per_s;
  }

  bool wanted(const std::string& name) const {
    return name.find(options_.filter) != std::string::npos;
  }
  // Returns whether a row whose name is `prefix` and a number of rows may be wanted.
  bool may_be_wanted(const std::string& prefix) const {
    return wanted(prefix) || options_.filter.find("m=") != std::string::npos;
  }
  // Returns the numbers of activation rows to measure: those of the options, or `usual`.
  const std::vector<int64_t>& row_counts(const std::vector<int64_t>& usual) const {
    return options_.rows.empty() ? usual : options_.rows;
  }

  // Measures call() and adds a row with the median; call(i) uses its number to rotate its buffers.
  template <typename Call>
  void measure(const BenchWork& work, Call&& call) {
    if (!wanted(work.name)) return;
    call(0);
    std::vector<double> times;
    const clockid_t clock = clock_of(stream_);
    const double start = now_us(clock);
    for (int i = 1; i < 5 || now_us(clock) - start < options_.seconds_per_row * 1e6; ++i) {
      const double begin = now_us(clock);
      call(i);
      times.push_back(now_us(clock) - begin);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                     times.end());
    add(work, times[times.size() / 2], *std::min_element(times.begin(), times.end()));
  }

  std::vector<KernelBenchRow> take() { return std::move(rows_); }

 private:
  void add(const BenchWork& work, double us, double best_us) {
    KernelBenchRow row;
    row.name = work.name;
    row.us = us;
    row.best_us = best_us;
    row.gb_per_s = work.bytes / us * 1e-3;
    row.gflop_per_s = work.flops / us * 1e-3;
    const double compute_us =
        work.peak_gflop_per_s > 0 ? work.flops / work.peak_gflop_per_s * 1e-3 : 0.0;
    row.bound_us = std::max(work.bytes / peaks_.read_gb_per_s * 1e-3, compute_us);
    row.percent = 100.0 * row.bound_us / us;
    row.best_percent = 100.0 * row.bound_us / best_us;
    if (on_row_) on_row_(row);
    rows_.push_back(std::move(row));
  }

  HostStream& stream_;
  const KernelBenchOptions& options_;
  const std::function<void(const KernelBenchRow&)>& on_row_;
  HardwarePeaks peaks_;
  std::vector<KernelBenchRow> rows_;
};

}  // namespace quire::bench
