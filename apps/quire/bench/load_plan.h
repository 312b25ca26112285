// A load plan is what a load generator sends, computed before the first request. It is a workload
// of sim/, so that `quire simulate` can replay a measured run, and a simulated workload can be sent
// to a server.
#pragma once

#include <string>
#include <vector>

#include "quire/bench/load_generator.h"
#include "sim/workload/workload.h"

namespace quire::bench {

struct LoadPlan {
  sim::Workload workload;
  std::vector<std::string> bodies;  // the JSON of each request
};

// Returns options.trace as it is, or random prompts with gamma-distributed gaps, rescaled so that
// the last request starts at n / rate. The model's name must be set. kInvalidArgument: the trace
// has what a single pass over /v1/completions cannot send (later turns, thinking clients, chat).
Result<LoadPlan> plan_load(const LoadOptions& options);

// Returns the workload as it was sent, with the actual start times and the lengths that the server
// counted. Failed requests are left out.
sim::Workload sent_workload(sim::Workload planned, const LoadResult& result);

}  // namespace quire::bench
