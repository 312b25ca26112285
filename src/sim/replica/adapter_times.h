// AdapterTimes are the times that adapters (LoRA) add to a step.
#pragma once

#include <cstdint>
#include <vector>

#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"

namespace quire::sim {

// Each linear layer gets two thin products besides its own, in two launches for all adapters of the
// step together: the adapters' weights are read, and each row costs rank * (inputs + outputs)
// multiplications.
struct AdapterTimes {
  double launch_us = 0;   // for a step with any adapter
  double adapter_us = 0;  // for each adapter of the step
  double token_us = 0;    // for each token of the step
  double bytes = 0;       // bytes of one adapter in a device's memory

  int64_t step_ns(int32_t num_adapters, int32_t num_tokens) const;
};

// Returns the times of adapters of every linear layer except routers and experts, stored in 16
// bits.
AdapterTimes adapter_times(const ModelShape& model, const Hardware& hardware,
                           const Parallelism& parallelism, int32_t rank);

// AdapterCount counts the different adapters of a step; 0 stands for no adapter.
class AdapterCount {
 public:
  void clear() { seen_.clear(); }
  void add(int32_t adapter);
  int32_t count() const { return static_cast<int32_t>(seen_.size()); }

 private:
  std::vector<int32_t> seen_;  // few: a step has at most --max-loras
};

}  // namespace quire::sim
