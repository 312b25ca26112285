// AdapterTimes say what adapters (LoRA) add to a step.
#pragma once

#include <cstdint>
#include <vector>

#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"

namespace quire::sim {

// Each linear layer gets two thin products beside its own, in two launches for all adapters of the
// step together: the adapters' weights are read, and rank * (inputs + outputs) multiplied by row.
struct AdapterTimes {
  double launch_us = 0;   // of a step with any adapter
  double adapter_us = 0;  // for each adapter of the step
  double token_us = 0;    // for each token of the step
  double bytes = 0;       // of one adapter in a device's memory

  int64_t step_ns(int32_t num_adapters, int32_t num_tokens) const;
};

// Of adapters of every linear layer but routers and experts, kept in 16 bits.
AdapterTimes adapter_times(const ModelShape& model, const Hardware& hardware,
                           const Parallelism& parallelism, int32_t rank);

// Counts the different adapters of a step; 0 is none.
class AdapterCount {
 public:
  void clear() { seen_.clear(); }
  void add(int32_t adapter);
  int32_t count() const { return static_cast<int32_t>(seen_.size()); }

 private:
  std::vector<int32_t> seen_;  // few: a step has at most --max-loras
};

}  // namespace quire::sim
