// What readers get of their requests, and how requests end: the one place that pushes to channels.
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

// It is used on the engine thread only.
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

  // A reader that leaves too much unread loses its request.
  void push(Choice& choice, OutputDelta delta);
  // Everything a choice holds is free when this returns; flush() forgets it.
  void end(Choice& choice, FinishReason reason, Status status, OutputDelta delta = {});
  // Ends what is unfinished of a group.
  void end_group(Group& group, FinishReason reason, const Status& status);
  // Ends a choice with kError; of a beam search, all of it.
  void fail(Choice& choice, const Status& why);
  // Ends all requests, flushes, and returns how many client requests that were.
  int64_t end_all(FinishReason reason, const Status& status);
  // Pushes the last deltas of those whose handover is done.
  void push_handed_over(int64_t now_us);
  // Tells readers of their news, and forgets requests that have ended. The metrics know it first.
  void flush();

 private:
  bool push_to_channel(const Choice& choice, OutputDelta delta);
  void note_end(Choice& choice, const Choice& computed, FinishReason reason);

  const Parts parts_;
  const StreamLimits limits_;
  std::vector<Group*> news_;  // groups to notify in flush()
};

}  // namespace quire
