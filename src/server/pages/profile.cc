#include "server/pages/profile.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <vector>

#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/door/server_state.h"
#include "server/http/api_error.h"
#include "server/json/query_values.h"
#include "server/models/model_host.h"
#include "server/pages/page.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr int64_t kMostSteps = 512;  // as many as an engine keeps

// Rows of the trace.
enum TraceRow : int { kStepRow = 1, kPartRow, kBoundRow };

json::object event(std::string_view name, TraceRow row, int64_t begin_us, int64_t duration_us) {
  return {{"name", name},    {"ph", "X"},      {"pid", 1},
          {"tid", int{row}}, {"ts", begin_us}, {"dur", duration_us}};
}

json::object name_of(TraceRow row, std::string_view name) {
  return {{"name", "thread_name"},
          {"ph", "M"},
          {"pid", 1},
          {"tid", int{row}},
          {"args", json::object{{"name", name}}}};
}

void add_step(const StepRecord& step, json::array& events) {
  json::object whole = event("step", kStepRow, step.begin_us, step.total_us());
  whole["args"] = json::object{{"step", step.step_id},
                               {"tokens", step.num_tokens},
                               {"requests", step.num_requests},
                               {"decodes", step.num_decodes},
                               {"waiting", step.num_waiting},
                               {"bound_us", step.cost.bound_us},
                               {"predicted_us", step.cost.total_us},
                               {"failed", step.failed}};
  events.emplace_back(std::move(whole));
  const int64_t execute_us = step.begin_us + step.schedule_us;
  events.emplace_back(event("schedule", kPartRow, step.begin_us, step.schedule_us));
  events.emplace_back(event("execute", kPartRow, execute_us, step.execute_us));
  events.emplace_back(event("update", kPartRow, execute_us + step.execute_us, step.update_us));
  if (step.cost.bound_us > 0) {
    events.emplace_back(event(to_string(step.cost.binding), kBoundRow, execute_us,
                              static_cast<int64_t>(step.cost.bound_us)));
  }
}

HttpResponse start_profile(const HttpRequest&, const PrepareContext& context) {
  context.server->profile_begin_us.store(context.model.engine->clock().now_us());
  return {200, "", "", {}};
}

// The query's `num_steps` limits the profile to its first steps.
HttpResponse stop_profile(const HttpRequest& request, const PrepareContext& context) {
  const int64_t begin_us = context.server->profile_begin_us.exchange(-1);
  if (begin_us < 0)
    return error_response(
        api_error(400, "no profile is being made; POST /start_profile begins one"));
  ApiResult<int64_t> most = query_integer(request.query, "num_steps", kMostSteps, 1, kMostSteps);
  if (!most.ok()) return error_response(most.error());
  json::array events{name_of(kStepRow, "steps"), name_of(kPartRow, "schedule, execute, update"),
                     name_of(kBoundRow, "bound")};
  for (const StepRecord& step : context.model.engine->recent_steps()) {
    if (step.begin_us < begin_us || most.value() == 0) continue;
    add_step(step, events);
    --most.value();
  }
  return json_page(json::object{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}});
}

constexpr Door kStart = page_door(&start_profile);
constexpr Door kStop = page_door(&stop_profile);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kProfileRoutes[] = {
    {"/start_profile", "POST", K::kGuarded, M::kInline, kStart,
     "Begin to note what the engine does.", S::kDevEndpoints},
    {"/stop_profile", "POST", K::kGuarded, M::kWorker, kStop,
     "The steps since /start_profile, at most the last 512, as a Chrome trace; num_steps: the "
     "first "
     "so many of them.",
     S::kDevEndpoints},
};

}  // namespace

std::span<const Route> profile_routes() { return kProfileRoutes; }

}  // namespace quire::server
