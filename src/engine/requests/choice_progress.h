// ChoiceProgress applies the outcomes of steps to choices: first scheduling, tokens, text, masks,
// stop strings, failures.
#pragma once

#include <cstdint>

#include "core/step.h"
#include "engine/choices/choice_masks.h"
#include "engine/choices/group.h"
#include "engine/handover/kv_handovers.h"
#include "engine/observe/engine_metrics.h"
#include "engine/requests/answers.h"
#include "engine/requests/beam_progress.h"
#include "engine/requests/live_groups.h"
#include "sched/scheduler.h"

namespace quire {

// Used by the engine thread only.
class ChoiceProgress {
 public:
  struct Parts {  // all borrowed
    LiveGroups& groups;
    Scheduler& scheduler;
    ChoiceMasks& masks;
    KvHandovers& handovers;
    Answers& answers;
    EngineMetrics& metrics;
  };
  explicit ChoiceProgress(const Parts& parts)
      : parts_(parts), beams_(parts.scheduler, parts.answers, parts.metrics) {}

  // Called when the plan is about to run.
  void on_scheduled(const StepPlan& plan, int64_t now_us);
  // Called when the scheduler has taken the result of a step for this request.
  void apply(const RequestUpdate& update, int64_t now_us);
  // Called when the step has failed as a whole.
  void fail_step(const StepPlan& plan, const Status& status);
  // Ends the choices whose deadline has passed.
  void expire(int64_t now_us);

 private:
  void take_tokens(Choice& choice, const RequestUpdate& update, int64_t now_us);
  void note_drafts(Choice& choice, const RequestUpdate& update);

  const Parts parts_;
  BeamProgress beams_;
};

}  // namespace quire
