#include "quire/bench/bound.h"

#include <memory>
#include <utility>

#include "device/cuda_device.h"
#include "facade/machine_hardware.h"
#include "facade/step_costs.h"
#include "kernels/cuda_ops.h"
#include "kernels/gpu_bench.h"

namespace quire::bench {

namespace {

// Probes the limits of the GPU, on a device of its own beside the engine's and with the memory that
// the engine left.
Result<Hardware> probe_gpu() {
  constexpr int64_t kBytes = int64_t{2} << 30;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, open_cuda_device({}, cuda_ops()));
  QUIRE_ASSIGN_OR_RETURN(const GpuLimits limits,
                         probe_gpu_limits(*device, {.memory_bytes = kBytes}));
  QUIRE_ASSIGN_OR_RETURN(Hardware hardware, find_hardware("h200-sxm"));
  const DeviceInfo info = device->info();
  hardware.name = hardware.description = info.name;
  hardware.num_units = info.gpu.num_sms;
  hardware.memory_bytes = static_cast<double>(info.total_memory_bytes);
  hardware.memory_bytes_per_s = limits.bytes_per_s;
  // FP8 and int8 products run at twice the rate of bf16 ones, as the datasheets say.
  double& bf16 = hardware.peak_flops[static_cast<size_t>(MathType::kBf16)];
  const double share = limits.bf16_flop_per_s / bf16;
  for (double& peak : hardware.peak_flops) peak *= share;
  hardware.provenance = {.source = "probe", .device = info.name};
  return hardware;
}

}  // namespace

Result<Hardware> probe_ceilings(const EngineArgs& args) {
  if (args.device == "cuda") return probe_gpu();
  constexpr int32_t kTries = 48;  // this takes some tenths of a second
  return probe_machine({.isa = args.isa, .num_threads = args.num_threads, .num_tries = kTries});
}

Hardware mean_ceilings(const Hardware& a, const Hardware& b) {
  const auto mean = [](double x, double y) { return (x + y) / 2; };
  Hardware between = a;
  between.memory_bytes_per_s = mean(a.memory_bytes_per_s, b.memory_bytes_per_s);
  between.cache_bytes_per_s = mean(a.cache_bytes_per_s, b.cache_bytes_per_s);
  for (size_t i = 0; i < between.peak_flops.size(); ++i) {
    between.peak_flops[i] = mean(a.peak_flops[i], b.peak_flops[i]);
  }
  return between;
}

Result<Bound> Bound::create(const RunningModel& model, Hardware ceilings) {
  QUIRE_ASSIGN_OR_RETURN(CostModel cost,
                         CostModel::create(cost_shape(model.bundle.name, model.plan),
                                           std::move(ceilings), {}, {.max_memoised_tokens = 0}));
  return Bound(std::move(cost));
}

StepCost Bound::step(int32_t batch_size, int32_t num_computed, int32_t num_scheduled) const {
  StepShape shape;
  for (int32_t i = 0; i < batch_size; ++i) {
    shape.add(num_computed, num_scheduled, true, cost_.windows());
  }
  return cost_.predict(shape);
}

StepCost Bound::decode(int32_t batch_size, int32_t context) const {
  return step(batch_size, context - 1, 1);
}

StepCost Bound::prefill(int32_t batch_size, int32_t num_tokens) const {
  return step(batch_size, 0, num_tokens);
}

double Bound::peak_flops() const {
  return cost_.hardware().peak_flops[static_cast<size_t>(math())];
}

}  // namespace quire::bench
