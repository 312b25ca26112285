#include "sched/budget/step_rules.h"

namespace quire {

// While a step is under way, the value of its sampled token is unknown, but its position is known.
// So the next step may be planned, unless the request will surely end with that token or somebody
// must see its value first.
bool StepRules::may_overlap(const Entry& entry) const {
  const SchedulerConfig& config = state_.config;
  const bool is_pipeline = config.pipeline_depth > 1;
  const bool may_have_two = config.async_scheduling || is_pipeline;
  if (!may_have_two || entry.num_flights == kMaxFlights) return false;
  if (stops_for_fork(entry, entry.next_position())) return false;
  const int32_t num_open = entry.num_open_tokens();
  const Request& request = entry.request;
  if (num_open > 0 && (is_pipeline || request.waits_for_values || state_.drafter != nullptr))
    return false;
  return num_open == 0 || (request.num_output_tokens() + num_open < request.params->max_tokens &&
                           entry.num_tokens() < config.max_model_len);
}

}  // namespace quire
