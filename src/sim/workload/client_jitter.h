// Clients are not clocks, and prompts are not made to the token. Without that, a closed loop of
// equal lengths stays in lockstep: the requests of one step end together and are replaced together,
// as long as the run lasts, and the queue that they make each time is of the workload's making.
#pragma once

#include <cstdint>

#include "sim/workload/workload.h"

namespace quire::sim {

struct ClientJitter {
  double length_share = 0;  // lengths are uniform within this share of what they were; below 1
  int64_t delay_ns = 0;     // every request is sent up to so much later, uniformly
  uint64_t seed = 0;
};

// Draws by the index of the request, so that the same seed gives the same workload. Turns of a
// session keep their lengths, since each repeats the ones before it.
void add_client_jitter(const ClientJitter& jitter, Workload& workload);

}  // namespace quire::sim
