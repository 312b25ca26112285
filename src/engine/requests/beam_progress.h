// BeamProgress runs beam searches in the step loop: steps give candidates, and the search says how
// its beams go on.
#pragma once

#include <cstdint>

#include "engine/choices/group.h"
#include "engine/observe/engine_metrics.h"
#include "engine/requests/answers.h"
#include "sched/scheduler.h"

namespace quire {

// Used by the engine thread only. Borrows all arguments.
class BeamProgress {
 public:
  BeamProgress(Scheduler& scheduler, Answers& answers, EngineMetrics& metrics)
      : scheduler_(scheduler), answers_(answers), metrics_(metrics) {}

  // Applies the result of a step for one beam. Once all beams of the search have theirs, they go
  // on.
  void apply(Choice& choice, const RequestUpdate& update, int64_t now_us);

 private:
  void advance(Group& group, int64_t now_us);
  void end(Group& group);

  Scheduler& scheduler_;
  Answers& answers_;
  EngineMetrics& metrics_;
};

}  // namespace quire
