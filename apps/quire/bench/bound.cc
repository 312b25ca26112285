#include "quire/bench/bound.h"

#include <utility>

#include "facade/hardware/gpu_hardware.h"
#include "facade/hardware/machine_hardware.h"
#include "facade/step_costs.h"

namespace quire::bench {

namespace {

// All ranks of the model on this machine work at the same time.
int32_t num_threads_of_all_ranks(const EngineArgs& args) {
  if (args.ranks.size > 1) return args.num_threads * args.ranks.num_on_host;
  return args.num_threads * args.tensor_parallel_size * args.pipeline_parallel_size;
}

}  // namespace

Result<Hardware> probe_ceilings(const EngineArgs& args, const RunningModel& model) {
  if (model.on_gpu) return probe_gpu();
  constexpr int32_t kTries = 48;  // this takes some tenths of a second
  return probe_machine(
      {.isa = args.isa, .num_threads = num_threads_of_all_ranks(args), .num_tries = kTries});
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
