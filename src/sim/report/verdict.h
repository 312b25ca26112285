// judge() says whether a fleet keeps up with its load.
#pragma once

#include "sim/report/summary.h"

namespace quire::sim {

// Sets verdict and verdict_reason from the number of requests in the system over the time in which
// requests came, comparing thirds of it:
//
//   overloaded  requests were refused, or some wait and the last third holds over 1.3 times
//               what the second held
//   backlogged  otherwise, when those that wait in the last third are over a tenth of those
//               that run
void judge(const RunResult& result, Summary& summary);

}  // namespace quire::sim
