// KvNews passes on what has happened to KV blocks: how long they stayed in the cache, for the
// metrics, and what the prefix cache holds, for listeners.
#pragma once

#include <functional>
#include <vector>

#include "engine/observe/engine_metrics.h"
#include "kv/kv_manager.h"

namespace quire {

// Used by the engine thread only.
class KvNews {
 public:
  using OnEvents = std::function<void(const std::vector<KvEvent>& events)>;

  // Borrows both. `has_events`: the manager keeps events, which must be taken even if there is no
  // listener.
  KvNews(KvManager& kv, EngineMetrics& metrics, bool has_events, OnEvents on_events)
      : kv_(kv), metrics_(metrics), has_events_(has_events), on_events_(std::move(on_events)) {}

  // Passes on what has happened since the last call.
  void pass_on();

 private:
  KvManager& kv_;
  EngineMetrics& metrics_;
  const bool has_events_;
  const OnEvents on_events_;
  std::vector<KvEvent> events_;
  std::vector<ResidencySample> residency_;
};

}  // namespace quire
