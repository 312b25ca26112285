#include "kv/books/event_log.h"

#include <iterator>
#include <utility>

namespace quire {

void EventLog::add(KvEvent event) {
  if (!enabled_) return;
  if (events_.size() >= max_events_) {
    ++num_lost_;
    return;
  }
  events_.push_back(std::move(event));
}

void EventLog::drain(std::vector<KvEvent>& out) {
  out.insert(out.end(), std::make_move_iterator(events_.begin()),
             std::make_move_iterator(events_.end()));
  events_.clear();
}

}  // namespace quire
