#include "sim/replica/replica_books.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire::sim {

// --- Load ---

void ReplicaBooks::add_load(const Delivery& leg) {
  ++load_.num_requests;
  load_.num_tokens += leg.prompt_tokens + leg.output_tokens;
  load_.num_prompt_tokens += leg.prompt_tokens;
  load_.prefill_us += leg.prefill_us;
}

void ReplicaBooks::unload(const Delivery& leg) {
  --load_.num_requests;
  load_.num_tokens -= leg.prompt_tokens + leg.output_tokens;
  load_.num_prompt_tokens -= leg.prompt_tokens;
  // Sums of fractions do not return to exactly zero.
  if (load_.num_requests == 0) load_.prefill_us = 0;
}

void ReplicaBooks::refuse(const Delivery& leg, Outcome outcome, int64_t now_ns) {
  RequestRecord& record = (*sinks_.records)[static_cast<size_t>(leg.request)];
  record.outcome = outcome;
  record.replica = index_;
  ++counters_.num_refused;
  load_.prefill_us -= leg.prefill_us;
  unload(leg);
  sinks_.on_leg_done(index_, leg, now_ns);
}

// --- A request, from its first step to its last token ---

void ReplicaBooks::note_plan(const StepPlan& plan, int64_t host_ns, int64_t now_ns) {
  for (const RequestId id : plan.dropped) {
    Slot* slot = slots_.find(id);
    if (slot == nullptr) continue;  // the request has ended
    slots_.end_running(*slot);
    slot->num_open = 0;  // the tokens that running steps sample for it are ignored
    ++record(*slot).num_preemptions;
    if (slot->recovering) continue;
    slot->recovering = true;
    slot->preempted_ns = now_ns;
    slot->preempted_host = host_ns;
  }
  for (const NewRequest& added : plan.new_requests) {
    Slot* slot = slots_.find(added.id);
    QUIRE_CHECK(slot != nullptr, "request {} is new after its end", added.id.value);
    slots_.begin_running(*slot);
    if (!slot->scheduled) note_first_run(*slot, host_ns, now_ns);
  }
}

void ReplicaBooks::note_first_run(Slot& slot, int64_t host_ns, int64_t now_ns) {
  slot.scheduled = true;
  slot.scheduled_ns = slot.mark_ns = now_ns;
  slot.host_mark = host_ns;
  RequestRecord& record = this->record(slot);
  const int64_t wait_ns = now_ns - slot.delivered_ns;
  const int64_t kv_ns = std::min(wait_ns, counters_.kv_blocked_ns - slot.kv_blocked_mark);
  CauseTimes& parts = slot.leg.num_generated == 0 ? record.ttft_parts : record.decode_parts;
  parts[static_cast<size_t>(Cause::kKv)] += kv_ns;
  parts[static_cast<size_t>(Cause::kQueue)] += wait_ns - kv_ns;
  if (slot.leg.num_generated > 0) {
    parts[static_cast<size_t>(Cause::kNetwork)] += slot.delivered_ns - slot.last_token_ns;
    return;
  }
  record.first_scheduled_ns = now_ns;
  parts[static_cast<size_t>(Cause::kHost)] += slot.delivered_ns - record.arrival_ns;
  const Request* request = scheduler_.find(slot.id);
  record.cached_tokens = request == nullptr ? 0 : request->num_cached_tokens;
}

// Returns what the time since the slot's mark was spent on, and moves the mark.
CauseTimes ReplicaBooks::close_interval(Slot& slot, int64_t now_ns) {
  CauseTimes parts{};
  const int64_t total_ns = now_ns - slot.mark_ns;
  const int64_t host_ns = std::min(total_ns - slot.kv_ns, counters_.host_ns - slot.host_mark);
  parts[static_cast<size_t>(Cause::kKv)] = slot.kv_ns;
  parts[static_cast<size_t>(Cause::kHost)] = host_ns;
  parts[static_cast<size_t>(Cause::kCompute)] = total_ns - slot.kv_ns - host_ns;
  slot.mark_ns = now_ns;
  slot.host_mark = counters_.host_ns;
  slot.kv_ns = 0;
  return parts;
}

void ReplicaBooks::take_token(Slot& slot, int64_t now_ns) {
  ++slot.known_tokens;
  slot.num_open = std::max(0, slot.num_open - 1);  // tokens of a run are not counted in num_open
  if (slot.recovering) {
    slot.recovering = false;
    slot.kv_ns += now_ns - slot.preempted_ns;
    slot.host_mark += counters_.host_ns - slot.preempted_host;
  }
  RequestRecord& record = this->record(slot);
  if (!slot.has_token) load_.prefill_us = std::max(0.0, load_.prefill_us - slot.leg.prefill_us);
  if (slot.leg.num_generated == 0 && !slot.has_token) {
    record.first_token_ns = now_ns;
    const CauseTimes parts = close_interval(slot, now_ns);
    for (size_t i = 0; i < parts.size(); ++i) record.ttft_parts[i] += parts[i];
  } else {
    add_gap(now_ns - slot.last_token_ns);
  }
  slot.has_token = true;
  slot.last_token_ns = now_ns;
}

void ReplicaBooks::add_gap(int64_t ns) {
  if (ns != gap_ns_) flush_gaps();
  gap_ns_ = ns;
  ++num_gaps_;
}

void ReplicaBooks::flush_gaps() {
  if (num_gaps_ > 0) sinks_.stats->itl.add(gap_ns_, num_gaps_);
  num_gaps_ = 0;
}

void ReplicaBooks::end_leg(Slot& slot, int64_t now_ns) {
  RequestRecord& record = this->record(slot);
  const CauseTimes parts = close_interval(slot, now_ns);
  for (size_t i = 0; i < parts.size(); ++i) record.decode_parts[i] += parts[i];
  record.last_token_ns = now_ns;
  record.replica = index_;
  record.output_tokens = slot.leg.num_generated + slot.known_tokens - slot.leg.prompt_tokens;
  slots_.end_running(slot);
  const Delivery leg = slot.leg;
  unload(leg);
  slots_.close(slot);
  sinks_.on_leg_done(index_, leg, now_ns);
}

// --- Steps ---

void ReplicaBooks::account_step(int64_t begin_ns, int64_t duration_ns, int64_t kv_tokens,
                                int32_t num_waiting) {
  counters_.busy_ns += duration_ns;
  TimeSlice& slice = sinks_.stats->timeline.at(begin_ns);
  slice.busy_ns += duration_ns;
  slice.running_ns += duration_ns * scheduler_.num_running();
  slice.waiting_ns += duration_ns * num_waiting;
  slice.kv_token_ns += duration_ns * kv_tokens;
}

void ReplicaBooks::account_wait(int64_t duration_ns, int32_t num_waiting) {
  const int64_t num_head_waits = scheduler_.stats().num_head_waits;
  if (std::exchange(last_head_waits_, num_head_waits) < num_head_waits) {
    counters_.kv_blocked_ns += duration_ns;
  } else if (num_waiting > 0) {
    counters_.seq_blocked_ns += duration_ns;
  }
}

void ReplicaBooks::note_peaks(const KvStats& kv, int32_t num_waiting) {
  counters_.peak_kv_blocks =
      std::max(counters_.peak_kv_blocks, kv.num_usable_blocks - kv.num_free_blocks);
  counters_.peak_waiting = std::max(counters_.peak_waiting, num_waiting);
}

}  // namespace quire::sim
