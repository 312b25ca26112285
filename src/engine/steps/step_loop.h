// StepLoop has the order of a step: deadlines, schedule, masks, execute, update, readers. It runs
// one step at a time. If the executor takes a step while another one runs, the loop plans the next
// one while the device computes.
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"
#include "core/executor.h"
#include "engine/choices/choice_masks.h"
#include "engine/requests/answers.h"
#include "engine/requests/choice_progress.h"
#include "engine/steps/checked_executor.h"
#include "engine/steps/kv_news.h"
#include "engine/steps/step_journal.h"
#include "sched/scheduler.h"

namespace quire {

// Used by the engine thread only.
class StepLoop {
 public:
  struct Parts {  // all borrowed
    Executor& executor;
    Scheduler& scheduler;
    KvManager& kv;
    ChoiceMasks& masks;
    Answers& answers;
    ChoiceProgress& progress;
    StepJournal& journal;
    KvNews& kv_news;
    EngineMetrics& metrics;
    const Clock& clock;
  };
  // `overlaps`: steps are planned while others run.
  StepLoop(const Parts& parts, int32_t vocab_size, bool overlaps)
      : parts_(parts), checked_executor_(parts.executor, vocab_size), overlaps_(overlaps) {}

  // Runs one step and returns true, or returns false if there was nothing to run.
  bool step();
  // Waits for the steps under way and takes their results.
  void settle();
  // Not ok if the device is lost and all requests have ended with kError.
  const Status& lost() const { return lost_; }

 private:
  // A step whose result has not come. Of its plan only the id, the scheduled requests and the host
  // copies are kept.
  struct StepUnderWay {
    StepPlan plan;
    int64_t begin_us = 0;
    int64_t scheduled_us = 0;
  };

  // Makes the next step's plan, with the masks of the rows that it samples.
  const StepPlan& make_plan(int64_t now_us);
  bool run(const StepPlan& plan, int64_t begin_us);
  // Does what run() does if steps overlap: submits the plan, then collects a step if enough are
  // under way.
  bool run_overlapped(const StepPlan& plan, int64_t begin_us);
  // Returns false if the executor did not take the step, which has then failed.
  bool submit(const StepPlan& plan, int64_t begin_us);
  void collect_oldest();
  // Runs a plan that has only copies, which are not for requests. Returns false if the plan has
  // none.
  bool make_host_copies(const StepPlan& plan);
  // Takes note of the status with which the step ended. The jobs of files that wait for its host
  // copies go on, unless the executor is lost: then nobody knows whether the copies were made.
  void end_copies(uint64_t step_id, const Status& status);
  void end_all_if_lost();
  void finish(const StepPlan& plan, Result<StepResult> result, StepRecord step,
              int64_t executed_us);

  const Parts parts_;
  CheckedExecutor checked_executor_;
  const bool overlaps_;
  std::deque<StepUnderWay> under_way_;  // oldest first
  int64_t last_step_end_us_ = 0;
  int64_t flush_us_ = 0;  // of the last step, whose own record was complete before
  Status lost_;
};

}  // namespace quire
