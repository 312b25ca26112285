#include "sim/replica/adapter_times.h"

#include <algorithm>
#include <cmath>

#include "roofline/model/layer_plan.h"

namespace quire::sim {
namespace {

constexpr double kMicro = 1e6;
constexpr double kWeightBytes = 2;

}  // namespace

int64_t AdapterTimes::step_ns(int32_t num_adapters, int32_t num_tokens) const {
  if (num_adapters == 0) return 0;
  return std::llround(1e3 * (launch_us + adapter_us * num_adapters + token_us * num_tokens));
}

AdapterTimes adapter_times(const ModelShape& model, const Hardware& hardware,
                           const Parallelism& parallelism, int32_t rank) {
  const DevicePlan plan = plan_device(model, parallelism);
  double width = 0;  // inputs and outputs of all adapted layers
  double num_layers = 0;
  for (const GroupPlan& group : plan.groups) {
    for (const LinearOp& op : group.linears) {
      if (op.kernel == Kernel::kRouter) continue;
      width += group.num_layers * (op.n + op.k);
      num_layers += group.num_layers;
    }
  }
  const double bandwidth = hardware.memory_bytes_per_s * hardware.elementwise.memory_share;
  const double peak = hardware.peak(MathType::kBf16) * hardware.gemm_model({}).compute_share;
  AdapterTimes times;
  times.bytes = width * rank * kWeightBytes;
  times.launch_us = 2 * num_layers * hardware.elementwise.launch_us;
  times.adapter_us = times.bytes / bandwidth * kMicro;
  // The rows between the two products are written to memory and read, and the outputs are accessed
  // once more.
  const double moved = width * kWeightBytes;
  times.token_us = (2 * width * rank / peak + moved / bandwidth) * kMicro;
  return times;
}

void AdapterCount::add(int32_t adapter) {
  if (adapter == 0 || std::find(seen_.begin(), seen_.end(), adapter) != seen_.end()) return;
  seen_.push_back(adapter);
}

}  // namespace quire::sim
