#include "sched/budget/preemptions.h"

namespace quire {

void Preemptions::preempt(Entry& entry) {
  any_ = true;
  paused_ = true;
  Roster& roster = state_.roster;
  Entry& first = entry.is_beam() ? *entry.beam_leader : entry;
  if (!entry.is_beam()) stop(first);
  for (Entry* beam : first.beams) {
    stop(*beam);
    if (beam != &first) roster.forks.add(*beam);
  }
  roster.waiting.insert(first);
}

void Preemptions::stop(Entry& entry) {
  budget_.take_back(entry);
  state_.roster.stop(entry);
  ++state_.stats.num_preemptions;
}

bool Preemptions::pause_admission() {
  if (!paused_) return false;
  const KvManager& kv = state_.kv;
  const std::vector<Entry*>& running = state_.roster.running();
  const BlockCounts room = kv.stores().num_free() - budget_.promises.all;
  const BlockCounts growth = kv.tables().sizing().a_block_each() * std::ssize(running);
  paused_ = !running.empty() && !(budget_.promises.watermark() + growth).fits_in(room);
  return paused_;
}

}  // namespace quire
