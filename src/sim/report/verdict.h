// judge() says whether a fleet keeps up with its load.
#pragma once

#include "sim/report/summary.h"

namespace quire::sim {

// Sets verdict and verdict_reason. Compares the number of requests in the system over thirds of the
// time in which requests arrived:
//
//   overloaded  requests were refused, or some wait and the last third holds over 1.3 times as
//               many as the second
//   backlogged  otherwise, if the waiting requests of the last third are over a tenth of the
//               running ones
void judge(const RunResult& result, Summary& summary);

}  // namespace quire::sim
