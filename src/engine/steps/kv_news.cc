#include "engine/steps/kv_news.h"

namespace quire {

void KvNews::pass_on() {
  kv_.drain_residency(residency_);
  if (!residency_.empty()) metrics_.on_residency(residency_);
  if (!has_events_) return;
  kv_.drain_events(events_);
  if (!events_.empty() && on_events_) on_events_(events_);
}

}  // namespace quire
