// assign_adapters() assigns adapters (LoRA) to the sessions of a workload.
#pragma once

#include <cstdint>

#include "sim/workload/workload.h"

namespace quire::sim {

struct AdapterChoice {
  int32_t num_adapters = 0;
  double skew = 1;  // adapter k is used 1 / k^skew times as often as the first; 0 means all equally
  uint64_t seed = 0;
};

// All turns of a session, and all requests with the same beginning, get the same adapter.
void assign_adapters(const AdapterChoice& choice, Workload& workload);

}  // namespace quire::sim
