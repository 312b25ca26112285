// assign_adapters() has the sessions of a workload ask for adapters (LoRA).
#pragma once

#include <cstdint>

#include "sim/workload/workload.h"

namespace quire::sim {

struct AdapterChoice {
  int32_t num_adapters = 0;
  double skew = 1;  // adapter k is asked for 1 / k^skew times as often as the first; 0: all alike
  uint64_t seed = 0;
};

// Turns of a session, and requests with the same beginning, ask for one and the same.
void assign_adapters(const AdapterChoice& choice, Workload& workload);

}  // namespace quire::sim
