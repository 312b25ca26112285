// Where an engine's steps spent their time during a run: how much of it is the model's, and what
// the host adds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/observe/engine_stats.h"

namespace quire::bench {

// Since the engine's start.
struct StepUse {
  int64_t num_steps = 0;
  StepTimeTotals time;
  double http_cpu_s = 0;  // of the threads that speak HTTP
  // Steps whose cost is known.
  double measured_us = 0;
  double bound_us = 0;
};

StepUse step_use(const EngineStats& stats);
// From the text of a Quire server's /metrics; nullopt: it is another's.
std::optional<StepUse> parse_step_use(std::string_view metrics);
// What was added since `earlier`.
StepUse since(const StepUse& earlier, const StepUse& later);

// Bound over measured time of the steps whose cost is known; nullopt: of none.
std::optional<double> bound_share(const StepUse& use);
// Of `wall_s`, the part in which the executor worked.
double executor_share(const StepUse& use, double wall_s);

// Says why where a share of a bound that was printed, the largest of them given, is above 1.
void explain_share(double largest);

// Shares of the wall time for the executor and its parts; per step what scheduling, text and
// everything between steps took.
void print_step_use(const StepUse& use, double wall_s);

}  // namespace quire::bench
