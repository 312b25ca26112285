#include "sim/replica/record.h"

#include <algorithm>

namespace quire::sim {

std::string_view to_string(Cause cause) {
  constexpr std::string_view kNames[] = {"queue", "kv", "compute", "host", "network"};
  return kNames[static_cast<size_t>(cause)];
}

std::string_view to_string(Outcome outcome) {
  constexpr std::string_view kNames[] = {"unfinished", "completed", "refused", "too_long"};
  return kNames[static_cast<size_t>(outcome)];
}

TimeSlice& Timeline::look_up(int64_t ns) {
  last_ = std::min(static_cast<size_t>(std::max<int64_t>(ns, 0) / slice_ns_), kMaxSlices - 1);
  last_begin_ns_ = static_cast<int64_t>(last_) * slice_ns_;
  last_end_ns_ = last_begin_ns_ + slice_ns_;
  if (last_ >= slices_.size()) slices_.resize(last_ + 1);
  return slices_[last_];
}

void Timeline::merge(const Timeline& other) {
  if (other.slices_.size() > slices_.size()) slices_.resize(other.slices_.size());
  for (size_t i = 0; i < other.slices_.size(); ++i) {
    const TimeSlice& from = other.slices_[i];
    TimeSlice& to = slices_[i];
    to.busy_ns += from.busy_ns;
    to.running_ns += from.running_ns;
    to.waiting_ns += from.waiting_ns;
    to.kv_token_ns += from.kv_token_ns;
    to.output_tokens += from.output_tokens;
    to.prompt_tokens += from.prompt_tokens;
    to.num_arrivals += from.num_arrivals;
    to.num_finished += from.num_finished;
  }
}

void ReplicaCounters::add(const ReplicaCounters& other) {
  num_steps += other.num_steps;
  num_tokens += other.num_tokens;
  num_output_tokens += other.num_output_tokens;
  num_preemptions += other.num_preemptions;
  num_recomputed_tokens += other.num_recomputed_tokens;
  prefix_queries += other.prefix_queries;
  prefix_hits += other.prefix_hits;
  tier_hits += other.tier_hits;
  num_refused += other.num_refused;
  num_received += other.num_received;
  busy_ns += other.busy_ns;
  host_ns += other.host_ns;
  kv_blocked_ns += other.kv_blocked_ns;
  seq_blocked_ns += other.seq_blocked_ns;
  reserved_slot_steps += other.reserved_slot_steps;
  unused_slot_steps += other.unused_slot_steps;
  peak_running = std::max(peak_running, other.peak_running);
  peak_waiting = std::max(peak_waiting, other.peak_waiting);
  peak_kv_blocks = std::max(peak_kv_blocks, other.peak_kv_blocks);
  num_kv_blocks += other.num_kv_blocks;
}

void ShardStats::merge(const ShardStats& other) {
  itl.merge(other.itl);
  timeline.merge(other.timeline);
}

}  // namespace quire::sim
