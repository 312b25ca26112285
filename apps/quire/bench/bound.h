// The least time that this machine allows for a step: the cost model of roofline/ over ceilings
// measured now.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "facade/model_bundle.h"
#include "roofline/model/cost_model.h"

namespace quire::bench {

// A short probe of this machine with the instructions that `args` asks for, or of its GPU where
// `args` names it. Measure while the engine is idle.
Result<Hardware> probe_ceilings(const EngineArgs& args);
// Bandwidths and peaks half way between two probes.
Hardware mean_ceilings(const Hardware& a, const Hardware& b);

class Bound {
 public:
  static Result<Bound> create(const RunningModel& model, Hardware ceilings);

  // One token for each of `batch_size` requests whose contexts are `context` tokens long.
  StepCost decode(int32_t batch_size, int32_t context) const;
  // `num_tokens` prompt tokens from position 0 for each request, logits for their last alone.
  StepCost prefill(int32_t batch_size, int32_t num_tokens) const;

  double read_bytes_per_s() const { return cost_.hardware().memory_bytes_per_s; }
  // Of the multiply-adds that the layers' matrices are computed with.
  double peak_flops() const;
  MathType math() const { return cost_.model().weights.math; }

 private:
  explicit Bound(CostModel cost) : cost_(std::move(cost)) {}
  StepCost step(int32_t batch_size, int32_t num_computed, int32_t num_scheduled) const;

  CostModel cost_;
};

}  // namespace quire::bench
