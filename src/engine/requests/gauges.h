// Gauges publishes the current values for the metrics: queues, blocks, adapters, files.
#pragma once

#include "engine/handover/kv_handovers.h"
#include "engine/observe/engine_metrics.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"

namespace quire {

// Used by the engine thread only. Borrows all arguments.
class Gauges {
 public:
  Gauges(const Scheduler& scheduler, KvManager& kv, const KvHandovers& handovers,
         EngineMetrics& metrics)
      : scheduler_(scheduler), kv_(kv), handovers_(handovers), metrics_(metrics) {}

  void publish();

 private:
  const Scheduler& scheduler_;
  KvManager& kv_;
  const KvHandovers& handovers_;
  EngineMetrics& metrics_;
};

}  // namespace quire
