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

bool Preemptions::pauses_admission(const BlockCounts& promised) const {
  const std::vector<Entry*>& running = state_.roster.running();
  if (!paused_ || running.empty()) return false;
  const KvManager& kv = state_.kv;
  const BlockCounts room = kv.stores().num_free() - promised;
  const BlockCounts growth = kv.tables().sizing().a_block_each() * std::ssize(running);
  return !(budget_.promises.watermark() + growth).fits_in(room);
}

bool Preemptions::pause_admission() {
  paused_ = pauses_admission(budget_.promises.all);
  return paused_;
}

}  // namespace quire
