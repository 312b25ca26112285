// A step report says where an engine's steps spent their time during a run: how much of it the
// model took, and how much the host added.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/observe/engine_stats.h"

namespace quire::bench {

// All members count from the engine's start.
struct StepUse {
  int64_t num_steps = 0;
  StepTimeTotals time;
  double http_cpu_s = 0;  // CPU time of the threads that speak HTTP
  // These two only cover steps whose cost is known.
  double measured_us = 0;
  double bound_us = 0;
};

StepUse step_use(const EngineStats& stats);
// Reads the text of a Quire server's /metrics; nullopt when the text is another server's.
std::optional<StepUse> parse_step_use(std::string_view metrics);
// Returns the difference of two readings: what was counted between `earlier` and `later`.
StepUse since(const StepUse& earlier, const StepUse& later);

// Returns bound over measured time of the steps whose cost is known; nullopt when there are none.
std::optional<double> bound_share(const StepUse& use);
// Returns the share of `wall_s` in which the executor worked.
double executor_share(const StepUse& use, double wall_s);

// Prints why a share of a bound can be above 1, if the largest of those printed is.
void explain_share(double largest);

// Prints the shares of the wall time that the executor and its parts took, and per step the time
// for scheduling, for text and between steps.
void print_step_use(const StepUse& use, double wall_s);
// Returns the same figures: shares of the wall time, and milliseconds a step.
boost::json::object to_json(const StepUse& use, double wall_s);

}  // namespace quire::bench
