#include "kernels/cuda/gpu_bench_table.h"

#include "base/clock.h"
#include "kernels/api/linear.h"
#include "kernels/api/rows/read_bytes.h"

namespace quire::cuda {
namespace {

constexpr int kReplays = 7;
// Starting a graph takes some microseconds, so a graph has as many calls as take a millisecond.
constexpr int kFewCalls = 10;
constexpr int kManyCalls = 200;
constexpr double kGraphUs = 1000;
constexpr int64_t kKeptBytes = int64_t{16} << 20;
constexpr int64_t kProductSize = 8192;

std::vector<uint16_t> random_bf16() {
  std::vector<uint16_t> values(size_t{1} << 22);
  uint32_t state = 1;
  for (uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = to_bfloat16(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f).bits;
  }
  return values;
}

}  // namespace

Result<GpuBenchTable::Ring> GpuBenchTable::Ring::create(Device& device, int64_t num_bytes) {
  Ring ring;
  QUIRE_ASSIGN_OR_RETURN(ring.memory, device.allocate(num_bytes));
  ring.base = static_cast<std::byte*>(ring.memory.allocate_bytes(ring.memory.capacity_bytes()));
  return ring;
}

std::byte* GpuBenchTable::Ring::next(int64_t num_bytes) {
  num_bytes = Arena::padded(num_bytes);
  QUIRE_CHECK(num_bytes <= memory.capacity_bytes(), "[bench] a buffer of {} bytes, memory of {}",
              num_bytes, memory.capacity_bytes());
  if (at + num_bytes > memory.capacity_bytes()) at = 0;
  std::byte* piece = base + at;
  at += num_bytes;
  return piece;
}

Result<GpuBenchTable> GpuBenchTable::create(
    Device& device, const GpuBenchOptions& options,
    const std::function<void(const KernelBenchRow&)>& on_row) {
  const int64_t num_bytes = std::min(device.info().free_memory_bytes / 2, options.memory_bytes);
  GpuBenchTable table(device, options, on_row);
  QUIRE_ASSIGN_OR_RETURN(table.inputs_, Ring::create(device, num_bytes * 3 / 4));
  QUIRE_ASSIGN_OR_RETURN(table.results_, Ring::create(device, num_bytes / 4));
  QUIRE_ASSIGN_OR_RETURN(table.kept_, Ring::create(device, kKeptBytes));
  QUIRE_RETURN_IF_ERROR(table.fill_inputs());
  return table;
}

Status GpuBenchTable::fill_inputs() {
  const std::vector<uint16_t> random = random_bf16();
  const int64_t size = inputs_.memory.capacity_bytes();
  const int64_t piece = std::min<int64_t>(static_cast<int64_t>(random.size()) * 2, size);
  device_->copy_to_device(inputs_.base, random.data(), piece);
  for (int64_t done = piece; done < size; done *= 2)
    device_->copy_on_device(inputs_.base + done, inputs_.base, std::min(done, size - done));
  return device_->synchronize();
}

// Returns the median over replays of the time per call, in a graph of `num_calls` calls.
Result<double> GpuBenchTable::time_graph_us(const std::function<void()>& call, int num_calls) {
  QUIRE_RETURN_IF_ERROR(device_->begin_capture());
  for (int i = 0; i < num_calls; ++i) call();
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, device_->end_capture());
  const SteadyClock clock;
  std::vector<double> times;
  for (int replay = 0; replay <= kReplays; ++replay) {
    const int64_t start = clock.now_us();
    graph->launch();
    QUIRE_RETURN_IF_ERROR(device_->synchronize());
    if (replay > 0) times.push_back(static_cast<double>(clock.now_us() - start) / num_calls);
  }
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return std::max(times[kReplays / 2], 1e-3);
}

Result<double> GpuBenchTable::time_us(const std::function<void()>& call) {
  call();  // lets libraries choose algorithms, which is not possible during a capture
  QUIRE_RETURN_IF_ERROR(device_->synchronize());
  QUIRE_ASSIGN_OR_RETURN(const double us, time_graph_us(call, kFewCalls));
  const auto calls = static_cast<int>(std::min(kGraphUs / us, double{kManyCalls}));
  if (calls <= kFewCalls) return us;
  return time_graph_us(call, calls);
}

void GpuBenchTable::measure_limits(bool with_products) {
  if (bytes_per_us_ == 0) {
    const int64_t bytes = std::min(int64_t{1} << 30, results_.memory.capacity_bytes() / 2);
    const Result<double> us =
        time_us([&] { device_->copy_on_device(result(bytes), next(bytes), bytes); });
    if (!us.ok()) {
      status_ = us.status();
      return;
    }
    const double copied = 2.0 * static_cast<double>(bytes);
    auto* sums = reinterpret_cast<uint32_t*>(kept(kReadSums * 4));
    const Result<double> read_us = time_us([&] {
      read_bytes(device_->stream(), {.from = next(bytes), .num_bytes = bytes, .sums = sums});
    });
    if (!read_us.ok()) {
      status_ = read_us.status();
      return;
    }
    bytes_per_us_ = std::max(static_cast<double>(bytes) / *read_us, copied / *us);
    add({"limit: read", static_cast<double>(bytes), 0}, *read_us);
    add({"limit: copy, read and written", copied, 0}, *us);
  }
  if (!with_products || flops_per_us_ != 0) return;
  constexpr int64_t kN = kProductSize;
  const WeightSpec spec{.n = kN, .k = kN, .compute = ComputeType::kBF16};
  std::byte* workspace = result(linear_workspace_bytes(device_->stream(), kN, spec));
  const Result<double> us = time_us([&] {
    const PackedWeight weight{spec, next(kN * kN * 2)};
    linear(device_->stream(), {.x = ConstActivations(next(kN * kN * 2), DType::kBF16),
                               .x_stride = kN,
                               .weight = &weight,
                               .y = Activations(result(kN * kN * 2), DType::kBF16),
                               .y_stride = kN,
                               .num_rows = kN,
                               .workspace = workspace});
  });
  if (!us.ok()) {
    status_ = us.status();
    return;
  }
  const double flops = 2.0 * kN * kN * kN;
  flops_per_us_ = flops / *us;
  add({"limit: bf16 product 8192 x 8192 x 8192", 0, flops}, *us);
}

void GpuBenchTable::measure(const BenchWork& work, const std::function<void()>& call) {
  if (!status_.ok() || !wanted(work.name)) return;
  measure_limits(work.flops > 0);
  if (!status_.ok()) return;
  const Result<double> us = time_us(call);
  if (us.ok()) {
    add(work, *us);
  } else {
    status_ = us.status();
  }
}

Result<GpuLimits> GpuBenchTable::limits() {
  measure_limits(true);
  QUIRE_RETURN_IF_ERROR(status_);
  return GpuLimits{.bytes_per_s = bytes_per_us_ * 1e6, .bf16_flop_per_s = flops_per_us_ * 1e6};
}

void GpuBenchTable::add(const BenchWork& work, double us) {
  KernelBenchRow row;
  row.name = work.name;
  row.us = row.best_us = us;
  row.gb_per_s = work.bytes / us * 1e-3;
  row.gflop_per_s = work.flops / us * 1e-3;
  row.bound_us = std::max(work.bytes > 0 ? work.bytes / bytes_per_us_ : 0.0,
                          work.flops > 0 ? work.flops / flops_per_us_ : 0.0);
  row.percent = row.best_percent = 100.0 * row.bound_us / us;
  if (*on_row_) (*on_row_)(row);
  rows_.push_back(std::move(row));
}

Result<std::vector<KernelBenchRow>> GpuBenchTable::take_rows() {
  QUIRE_RETURN_IF_ERROR(status_);
  return std::move(rows_);
}

}  // namespace quire::cuda
