#include "sim/replica/step_timer.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quire::sim {
namespace {

int64_t to_ns(double us) { return std::max<int64_t>(1, std::llround(us * 1e3)); }

}  // namespace

void StepTimer::time_decodes(StepShape& shape, std::span<const int32_t> num_inside,
                             std::span<int64_t> total_ns) const {
  for (int64_t& ns : total_ns) {
    ns = time(shape).total_ns;
    shape.decode.context += shape.num_requests;
    ++shape.decode.max_context;
    for (size_t w = 0; w < num_inside.size(); ++w) shape.decode.windowed[w] += num_inside[w];
  }
}

CostModelTimer::CostModelTimer(std::shared_ptr<const CostModel> model) : model_(std::move(model)) {}

StepTime CostModelTimer::time(const StepShape& shape) const {
  if (model_->parallelism().pp == 1) {
    const int64_t ns = to_ns(model_->predict_us(shape));
    return {.total_ns = ns, .stage_ns = ns};
  }
  const StepCost cost = model_->predict(shape);
  return {.total_ns = to_ns(cost.total_us), .stage_ns = to_ns(cost.stage_us)};
}

void CostModelTimer::time_decodes(StepShape& shape, std::span<const int32_t> num_inside,
                                  std::span<int64_t> total_ns) const {
  if (model_->parallelism().pp > 1) return StepTimer::time_decodes(shape, num_inside, total_ns);
  std::array<double, 64> us;
  while (!total_ns.empty()) {
    const size_t count = std::min(us.size(), total_ns.size());
    model_->predict_decodes_us(shape, num_inside, std::span(us).first(count));
    for (size_t i = 0; i < count; ++i) total_ns[i] = to_ns(us[i]);
    total_ns = total_ns.subspan(count);
  }
}

int64_t CostModelTimer::host_ns(const StepShape& shape) const {
  if (model_->fidelity() == Fidelity::kBound) return 0;
  const HostModel& host = model_->hardware().host;
  return std::llround(1e3 * (host.step_us + host.request_us * shape.num_requests +
                             host.token_us * shape.num_tokens));
}

StepTime AffineTimer::time(const StepShape& shape) const {
  double context = static_cast<double>(shape.decode.context);
  for (const PromptChunk& chunk : shape.chunks) context += chunk.context;
  const double ns = step_ns + token_ns * shape.num_tokens + context_ns * context;
  const int64_t rounded = std::max<int64_t>(1, std::llround(ns));
  return {.total_ns = rounded, .stage_ns = rounded};
}

int64_t AffineTimer::host_ns(const StepShape&) const { return std::llround(host_step_ns); }

}  // namespace quire::sim
