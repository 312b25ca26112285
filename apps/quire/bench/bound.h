// Bound is the least time that this machine allows for a step. The cost model of roofline/ computes
// it from ceilings that are measured here.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "facade/model_bundle.h"
#include "roofline/model/cost_model.h"

namespace quire::bench {

// Measures for a short time the ceilings of the device that `model` runs on: the GPU, or this
// machine with the instruction set that `args` asks for. The engine must be idle meanwhile.
Result<Hardware> probe_ceilings(const EngineArgs& args, const RunningModel& model);
// Returns the bandwidths and peaks half way between two probes.
Hardware mean_ceilings(const Hardware& a, const Hardware& b);

class Bound {
 public:
  static Result<Bound> create(const RunningModel& model, Hardware ceilings);

  // The step computes one token for each of `batch_size` requests, whose contexts are `context`
  // tokens long.
  StepCost decode(int32_t batch_size, int32_t context) const;
  // The step computes `num_tokens` prompt tokens from position 0 for each request, and logits for
  // the last of them alone.
  StepCost prefill(int32_t batch_size, int32_t num_tokens) const;

  double read_bytes_per_s() const { return cost_.hardware().memory_bytes_per_s; }
  // Returns the peak multiply-add rate for the number format in which the layers' matrices are
  // computed.
  double peak_flops() const;
  MathType math() const { return cost_.model().weights.math; }

 private:
  explicit Bound(CostModel cost) : cost_(std::move(cost)) {}
  StepCost step(int32_t batch_size, int32_t num_computed, int32_t num_scheduled) const;

  CostModel cost_;
};

}  // namespace quire::bench
