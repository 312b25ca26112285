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
  // Returns random bf16 in (-1, 1) to read, and the same memory again only after all of it. CHECKs
  // that there is so much. What a call writes belongs in result(): inputs that are another call's
  // outputs soon hold infinities, on which kernels take other paths.
  std::byte* next(int64_t num_bytes) { return inputs_.next(num_bytes); }
  // Returns memory to write, in turns as next() does.
  std::byte* result(int64_t num_bytes) { return results_.next(num_bytes); }
  // Returns memory of which no other call gets any for long.
  std::byte* kept(int64_t num_bytes) { return kept_.next(num_bytes); }
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
  // A Ring hands out the pieces of its memory in turns.
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
  Ring kept_;                // what must not change while a row is measured
  double bytes_per_us_ = 0;  // measured limits; 0: not yet
  double flops_per_us_ = 0;
  Status status_;
  std::vector<KernelBenchRow> rows_;
};

// Adds the rows of the ops of states.
void state_rows(GpuBenchTable& table);

}  // namespace quire::cuda
