#include "server/pages/steps_view.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/pages/page.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxSteps = 256;
// These are the columns of a step. The terms of its time follow, in microseconds, in the order of
// Term.
constexpr const char* kColumns[] = {"step",  "tokens",      "decodes",  "requests",     "flops",
                                    "bytes", "measured_us", "bound_us", "predicted_us", "host_us"};

json::value hardware_json(const std::shared_ptr<const CostModel>& cost) {
  if (cost == nullptr) return nullptr;
  const Hardware& hardware = cost->hardware();
  json::object peaks;
  for (int i = 0; i < kNumMathTypes; ++i) {
    const double peak = hardware.peak_flops[static_cast<size_t>(i)];
    if (peak > 0) peaks[to_string(static_cast<MathType>(i))] = peak;
  }
  return json::object{{"name", hardware.name},
                      {"source", hardware.provenance.source},
                      {"bytes_per_s", hardware.memory_bytes_per_s},
                      {"peaks", std::move(peaks)}};
}

json::array step_json(const StepRecord& step) {
  const StepCost& cost = step.cost;
  json::array row{step.step_id,     step.num_tokens,
                  step.num_decodes, step.num_requests,
                  cost.flops,       cost.read_bytes + cost.write_bytes,
                  step.total_us(),  cost.bound_us,
                  cost.total_us,    step.schedule_us + step.update_us};
  for (const double term : cost.terms) row.emplace_back(term);
  return row;
}

}  // namespace

HttpResponse steps_view(const HttpRequest&, const PrepareContext& context) {
  json::array columns, terms, rows;
  for (const char* column : kColumns) columns.emplace_back(column);
  for (int i = 0; i < kNumTerms; ++i) terms.emplace_back(to_string(static_cast<Term>(i)));
  const std::vector<StepRecord> steps = context.model.engine->recent_steps();
  const size_t begin = steps.size() > kMaxSteps ? steps.size() - kMaxSteps : 0;
  for (size_t i = begin; i < steps.size(); ++i) {
    if (!steps[i].failed) rows.emplace_back(step_json(steps[i]));
  }
  const json::object answer{{"hardware", hardware_json(context.model.engine->cost_model())},
                            {"columns", std::move(columns)},
                            {"terms", std::move(terms)},
                            {"steps", std::move(rows)}};
  return json_page(answer);
}

}  // namespace quire::server
