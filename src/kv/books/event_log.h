// EventLog keeps what the prefix cache has to tell routers, until somebody takes it. It is bounded:
// what finds no room is counted and lost.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/books/kv_events.h"

namespace quire {

class EventLog {
 public:
  // When it is not `enabled`, it drops everything and counts nothing.
  EventLog(bool enabled, int32_t max_events)
      : enabled_(enabled), max_events_(static_cast<size_t>(max_events)) {}

  bool enabled() const { return enabled_; }
  void add(KvEvent event);
  // Appends what has come since the last drain.
  void drain(std::vector<KvEvent>& out);
  int64_t num_lost() const { return num_lost_; }

 private:
  const bool enabled_;
  const size_t max_events_;
  std::vector<KvEvent> events_;
  int64_t num_lost_ = 0;
};

}  // namespace quire
