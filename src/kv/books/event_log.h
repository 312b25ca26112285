// EventLog keeps the events of the prefix cache until they are drained for routers. It is bounded:
// events that find no room are counted and lost.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/books/kv_events.h"

namespace quire {

class EventLog {
 public:
  // If not `enabled`, it drops all events and counts none.
  EventLog(bool enabled, int32_t max_events)
      : enabled_(enabled), max_events_(static_cast<size_t>(max_events)) {}

  bool enabled() const { return enabled_; }
  void add(KvEvent event);
  // Appends the events since the last drain.
  void drain(std::vector<KvEvent>& out);
  int64_t num_lost() const { return num_lost_; }

 private:
  const bool enabled_;
  const size_t max_events_;
  std::vector<KvEvent> events_;
  int64_t num_lost_ = 0;
};

}  // namespace quire
