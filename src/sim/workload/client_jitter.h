// Real clients do not send at exact times, nor prompts of exact lengths. Without jitter, a closed
// loop of equal lengths stays in lockstep: the requests of one step end together and are replaced
// together for the whole run, and the queue that they form each time is an artefact of the
// workload.
#pragma once

#include <cstdint>

#include "sim/workload/workload.h"

namespace quire::sim {

struct ClientJitter {
  // Lengths are drawn uniformly within this share of the original, below 1.
  double length_share = 0;
  int64_t delay_ns = 0;  // every request is delayed by a uniform time up to this
  uint64_t seed = 0;
};

// Draws by the index of the request, so that the same seed gives the same workload. Turns of a
// session keep their lengths, because each repeats the ones before it.
void add_client_jitter(const ClientJitter& jitter, Workload& workload);

}  // namespace quire::sim
