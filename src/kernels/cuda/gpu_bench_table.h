// A GpuBenchTable is a table of measured kernels, and the memory that they run in.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu_bench.h"

namespace quire::cuda {

// BenchWork says what a call must move and compute.
struct BenchWork {
  std::string name;
  double bytes = 0;
  double flops = 0;
};

class GpuBenchTable {
 public:
  static Result<GpuBenchTable> create(Device& device, const GpuBenchOptions& options,
                                      const std::function<void(const KernelBenchRow&)>& on_row);

  Device& device() { return *device_; }
  bool wanted(const std::string& name) const {
    return name.find(options_->filter) != std::string::npos;
  }
  // Returns random bf16 in (-1, 1), and the same memory again only after all of it. CHECKs that
  // there is so much.
  std::byte* next(int64_t num_bytes);
  template <typename T>
  T* upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    std::byte* memory = kept(bytes);
    device_->copy_to_device(memory, values.data(), bytes);
    (void)device_->synchronize();
    return reinterpret_cast<T*>(memory);
  }

  // Measures call() and adds its row; it does nothing when the name is not wanted. The first error
  // stays.
  void measure(const BenchWork& work, const std::function<void()>& call);
  Result<GpuLimits> limits();
  Result<std::vector<KernelBenchRow>> take_rows();

 private:
  GpuBenchTable(Device& device, const GpuBenchOptions& options,
                const std::function<void(const KernelBenchRow&)>& on_row, Arena memory);
  Status fill();
  std::byte* kept(int64_t num_bytes);
  Result<double> time_us(const std::function<void()>& call);
  Result<double> time_graph_us(const std::function<void()>& call, int num_calls);
  void measure_limits(bool with_products);
  void add(const BenchWork& work, double us);

  Device* device_;
  const GpuBenchOptions* options_;
  const std::function<void(const KernelBenchRow&)>* on_row_;
  Arena memory_;
  std::byte* base_ = nullptr;
  int64_t at_ = 0;
  Arena kept_;  // what must not change while a row is measured
  std::byte* kept_base_ = nullptr;
  int64_t kept_at_ = 0;
  double bytes_per_us_ = 0;  // measured limits; 0: not yet
  double flops_per_us_ = 0;
  Status status_;
  std::vector<KernelBenchRow> rows_;
};

}  // namespace quire::cuda
