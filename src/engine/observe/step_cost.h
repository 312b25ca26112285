// What each executed step should have cost: its shape, FLOPs, bytes, bound and prediction (law L5).
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

// Returns the cost model's predictions in the form that the scheduler takes, linear in a step's
// counts: they are chords between steps of the sizes that a server sees most.
StepTimeTable step_time_table(const CostModel& model);

// Belongs to the engine thread. Without a cost model shapes are recorded and costs are zero.
// Allocates nothing once it has seen the largest step.
class StepCosts {
 public:
  StepCosts(std::shared_ptr<const CostModel> model, std::vector<StepObserver> observers)
      : model_(std::move(model)), observers_(std::move(observers)) {}

  void set_model(std::shared_ptr<const CostModel> model) { model_ = std::move(model); }

  // Fills the record's shape and cost from what was granted and the executor's own times, and tells
  // the observers. Ids, times and `failed` of the record are set. `result` null: the step failed.
  void fill(const StepPlan& plan, const StepResult* result, StepRecord& record);

 private:
  // What requests look at: told of when they begin.
  void follow_sources(const StepPlan& plan);

  std::unordered_map<RequestId, int32_t> source_rows_;  // of requests under way that have a source
  std::shared_ptr<const CostModel> model_;              // shared with whoever shows its hardware
  const std::vector<StepObserver> observers_;
  MeasuredStep step_;  // kept for its capacity
};

}  // namespace quire
