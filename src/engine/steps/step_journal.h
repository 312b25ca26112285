// StepJournal records each step: its record with cost and bound, metrics, log lines.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/step.h"
#include "engine/observe/engine_log.h"
#include "engine/observe/engine_metrics.h"
#include "engine/observe/step_cost.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"

namespace quire {

// Used by the engine thread only.
class StepJournal {
 public:
  struct Parts {  // all borrowed
    const Scheduler& scheduler;
    const KvManager& kv;
    EngineMetrics& metrics;
  };
  StepJournal(const Parts& parts, const EngineLog& log, StepCosts costs, int64_t start_us)
      : parts_(parts), log_(log), costs_(std::move(costs)), start_us_(start_us) {}

  void set_cost_model(std::shared_ptr<const CostModel> model) {
    costs_.set_model(std::move(model));
  }
  // Logs throughput if that is due.
  void log_throughput(int64_t now_us);
  // Completes a record that has the times of a step. `result` is null if the step failed.
  void record(const StepPlan& plan, const StepResult* result, StepRecord step);
  // Returns the last steps, oldest first, at most 512.
  std::vector<StepRecord> recent() const;

 private:
  const Parts parts_;
  EngineLog log_;
  StepCosts costs_;
  const int64_t start_us_;         // when the engine started
  std::vector<StepRecord> steps_;  // ring
  size_t next_step_ = 0;
};

}  // namespace quire
