// Answers gives readers the output of their requests, and ends requests. Only this class pushes to
// channels.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "engine/choices/choice_masks.h"
#include "engine/choices/group.h"
#include "engine/handover/kv_handovers.h"
#include "engine/observe/engine_metrics.h"
#include "engine/requests/gauges.h"
#include "engine/requests/live_groups.h"
#include "sched/scheduler.h"

namespace quire {

// Used by the engine thread only.
class Answers {
 public:
  struct Parts {  // all borrowed
    LiveGroups& groups;
    Scheduler& scheduler;
    ChoiceMasks& masks;
    KvHandovers& handovers;
    Gauges& gauges;
    EngineMetrics& metrics;
    const Clock& clock;
  };
  Answers(const Parts& parts, const StreamLimits& limits) : parts_(parts), limits_(limits) {}

  // Pushes a delta. If its reader leaves too much unread, the request is aborted.
  void push(Choice& choice, OutputDelta delta);
  // Ends a choice. Everything that it holds is free when this returns; flush() forgets it.
  void end(Choice& choice, FinishReason reason, Status status, OutputDelta delta = {});
  // Ends the unfinished choices of a group.
  void end_group(Group& group, FinishReason reason, const Status& status);
  // Ends a choice with kError, or all of its beam search.
  void fail(Choice& choice, const Status& why);
  // Ends all requests, flushes, and returns how many client requests they were.
  int64_t end_all(FinishReason reason, const Status& status);
  // Pushes the last deltas of requests whose handover is done.
  void push_handed_over(int64_t now_us);
  // Notifies readers of new output, and forgets requests that have ended. The metrics are updated
  // first.
  void flush();

 private:
  bool push_to_channel(const Choice& choice, OutputDelta delta);
  void note_end(Choice& choice, const Choice& computed, FinishReason reason);

  const Parts parts_;
  const StreamLimits limits_;
  std::vector<Group*> news_;  // groups to notify in flush()
};

}  // namespace quire
