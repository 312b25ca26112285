// Computes what each executed step should have cost: shape, FLOPs, bytes, bound and prediction (law
// L5).
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/step.h"
#include "engine/observe/engine_stats.h"
#include "roofline/calibrate/step_log.h"
#include "roofline/model/cost_model.h"
#include "sched/step_time.h"

namespace quire {

// Called on the engine thread after each step; must be quick and must not fail.
using StepObserver = std::function<void(const MeasuredStep& step, const StepCost& cost)>;

// Returns the cost model's predictions in the form that the scheduler uses, linear in a step's
// counts. They are chords between steps of the sizes that a server sees most.
StepTimeTable step_time_table(const CostModel& model);

// For the engine thread. Without a cost model, shapes are recorded and costs are zero. Allocates
// nothing once it has seen the largest step.
class StepCosts {
 public:
  StepCosts(std::shared_ptr<const CostModel> model, std::vector<StepObserver> observers)
      : model_(std::move(model)), observers_(std::move(observers)) {}

  void set_model(std::shared_ptr<const CostModel> model) { model_ = std::move(model); }

  // Computes the record's shape and cost from the plan and the executor's times, and calls the
  // observers. The record's ids, times and `failed` are already set. `result` is null if the step
  // failed.
  void fill(const StepPlan& plan, const StepResult* result, StepRecord& record);

 private:
  // Records the sources of requests that begin in this plan.
  void follow_sources(const StepPlan& plan);

  std::unordered_map<RequestId, int32_t> source_rows_;  // by requests under way that have a source
  std::shared_ptr<const CostModel> model_;              // shared with code that shows its hardware
  const std::vector<StepObserver> observers_;
  MeasuredStep step_;  // kept for its capacity
};

}  // namespace quire
