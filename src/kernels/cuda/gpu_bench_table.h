// A GpuBenchTable collects measurements of kernels, and owns the memory that they run in.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu_bench.h"

namespace quire::cuda {

// The bytes that a call moves and the operations that it computes.
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
  // Returns random bf16 in (-1, 1) to read; it returns the same memory again only after all the
  // rest. CHECKs that there is enough. Calls must write to result() instead: if inputs were outputs
  // of other calls, they would soon hold infinities, on which kernels take other paths.
  std::byte* next(int64_t num_bytes) { return inputs_.next(num_bytes); }
  // Returns memory to write to, which rotates as that of next() does.
  std::byte* result(int64_t num_bytes) { return results_.next(num_bytes); }
  // Returns memory that no later call gets until all the rest has been handed out.
  std::byte* kept(int64_t num_bytes) { return kept_.next(num_bytes); }
  template <typename T>
  T* upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    std::byte* memory = kept(bytes);
    device_->copy_to_device(memory, values.data(), bytes);
    (void)device_->synchronize();
    return reinterpret_cast<T*>(memory);
  }

  // Measures call() and adds its row. Does nothing if the name is not wanted. The first error is
  // kept.
  void measure(const BenchWork& work, const std::function<void()>& call);
  Result<GpuLimits> limits();
  Result<std::vector<KernelBenchRow>> take_rows();

 private:
  // A Ring hands out the pieces of its memory in rotation.
  struct Ring {
    static Result<Ring> create(Device& device, int64_t num_bytes);
    std::byte* next(int64_t num_bytes);
    Arena memory;
    std::byte* base = nullptr;
    int64_t at = 0;
  };

  GpuBenchTable(Device& device, const GpuBenchOptions& options,
                const std::function<void(const KernelBenchRow&)>& on_row)
      : device_(&device), options_(&options), on_row_(&on_row) {}
  Status fill_inputs();
  Result<double> time_us(const std::function<void()>& call);
  Result<double> time_graph_us(const std::function<void()>& call, int num_calls);
  void measure_limits(bool with_products);
  void add(const BenchWork& work, double us);

  Device* device_;
  const GpuBenchOptions* options_;
  const std::function<void(const KernelBenchRow&)>* on_row_;
  Ring inputs_;
  Ring results_;
  Ring kept_;                // for what must not change while a row is measured
  double bytes_per_us_ = 0;  // measured limits; 0: not measured
  double flops_per_us_ = 0;
  Status status_;
  std::vector<KernelBenchRow> rows_;
};

// Adds the rows of the ops of states.
void state_rows(GpuBenchTable& table);

}  // namespace quire::cuda
