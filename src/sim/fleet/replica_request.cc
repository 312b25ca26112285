// This file has the books of one request, from joining the queue to its last token.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/fleet/replica.h"
#include "sim/workload/token_content.h"

namespace quire::sim {

// An id orders requests as they joined and names their slot.
Replica::Slot* Replica::find(RequestId id) {
  const auto index = static_cast<size_t>(id.value & ((uint64_t{1} << kSlotBits) - 1));
  if (index >= slots_.size() || slots_[index].id != id) return nullptr;
  return &slots_[index];
}

Replica::Slot& Replica::open_slot(const Pending& pending) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<int32_t>(slots_.size()));
    slots_.emplace_back();
    QUIRE_CHECK(slots_.size() <= (size_t{1} << kSlotBits), "replica {}: {} requests at once",
                index_, slots_.size());
  }
  const int32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot = {.id = RequestId(++num_joined_ << kSlotBits | static_cast<uint64_t>(index)),
          .leg = pending.leg,
          .known_tokens = pending.leg.prompt_tokens,
          .delivered_ns = pending.delivered_ns,
          .kv_blocked_mark = pending.kv_blocked_mark,
          .last_token_ns = pending.leg.last_token_ns};
  return slot;
}

TokenId Replica::output_token(const Slot& slot, int64_t position) const {
  const auto& request = sinks_.workload->requests[static_cast<size_t>(slot.leg.request)];
  return content_token(request.content, position);
}

std::shared_ptr<const SamplingParams> Replica::params(int32_t max_tokens) {
  auto& entry = params_[max_tokens];
  if (entry == nullptr) {
    SamplingParams p;
    p.max_tokens = max_tokens;
    p.ignore_eos = true;
    entry = std::make_shared<const SamplingParams>(std::move(p));
  }
  return entry;
}

// Returns false when the KV that comes along has no room at the moment.
bool Replica::join(Pending& pending, int64_t now_ns) {
  const Delivery& leg = pending.leg;
  const SimRequest& source = sinks_.workload->requests[static_cast<size_t>(leg.request)];
  // The scheduler would refuse such a prompt too, and it is not worth writing down.
  if (leg.prompt_tokens >= scheduler_.config().max_model_len) {
    refuse(pending, Outcome::kTooLong, now_ns);
    return true;
  }
  Request request;
  request.token_ids.reserve(static_cast<size_t>(leg.prompt_tokens) +
                            static_cast<size_t>(leg.output_tokens));
  sinks_.workload->fill_prompt(source, request.token_ids);
  if (leg.num_generated > 0) {
    request.token_ids.resize(static_cast<size_t>(leg.prompt_tokens));
    fill_content(source.content, source.input_tokens,
                 std::span(request.token_ids).subspan(static_cast<size_t>(source.input_tokens)));
  }
  if (pending.kv_tokens > 0 && !put_kv(request.token_ids, pending.kv_tokens) &&
      scheduler_.has_unfinished()) {
    return false;
  }
  Slot& slot = open_slot(pending);
  request.id = slot.id;
  request.params = params(leg.output_tokens);
  request.priority = source.priority;
  request.arrival_us = pending.delivered_ns / 1000;
  const Status added = scheduler_.add(std::move(request), now_ns / 1000);
  if (!added.ok()) {
    free_slots_.push_back(static_cast<int32_t>(&slot - slots_.data()));
    slot.id = {};
    const bool full = added.code() == StatusCode::kResourceExhausted;
    refuse(pending, full ? Outcome::kRefused : Outcome::kTooLong, now_ns);
  } else if (leg.kv_tokens > 0) {
    ++counters_.num_received;
  }
  return true;
}

// KV that was computed elsewhere enters through the prefix cache: whole blocks are written and
// registered, and the request hits them when it is admitted.
bool Replica::put_kv(std::span<const TokenId> tokens, int32_t num_tokens) {
  const int32_t whole = num_tokens / kv_.block_size() * kv_.block_size();
  if (whole == 0) return true;
  const KvSequenceId sequence = kv_.open({}, {});
  const std::span<const TokenId> known = tokens.first(static_cast<size_t>(whole));
  const PrefixHit hit = kv_.lookup_whole_blocks(sequence, known);
  const bool fits = kv_.tables().allocate(
      sequence, {.tokens = known, .hit = hit, .num_new_tokens = whole - hit.num_tokens});
  if (fits) kv_.tables().commit(sequence, known, whole);
  kv_.close(sequence);
  return fits;
}

void Replica::refuse(const Pending& pending, Outcome outcome, int64_t now_ns) {
  const Delivery& leg = pending.leg;
  RequestRecord& record = (*sinks_.records)[static_cast<size_t>(leg.request)];
  record.outcome = outcome;
  record.replica = index_;
  ++counters_.num_refused;
  load_.prefill_us -= leg.prefill_us;
  unload(leg);
  sinks_.on_leg_done(index_, leg, now_ns);
}

void Replica::unload(const Delivery& leg) {
  --load_.num_requests;
  load_.num_tokens -= leg.prompt_tokens + leg.output_tokens;
  load_.num_prompt_tokens -= leg.prompt_tokens;
  // Sums of fractions do not come back to zero by themselves.
  if (load_.num_requests == 0) load_.prefill_us = 0;
}

// Notes which requests were preempted, run for the first time, or run again.
void Replica::note_plan(const StepPlan& plan, int64_t now_ns) {
  for (const RequestId id : plan.dropped) {
    Slot* slot = find(id);
    if (slot == nullptr) continue;  // it had ended
    drop_from_running(*slot);
    slot->num_open = 0;  // what steps under way sample of it is ignored
    ++(*sinks_.records)[static_cast<size_t>(slot->leg.request)].num_preemptions;
    if (slot->recovering) continue;
    slot->recovering = true;
    slot->preempted_ns = now_ns;
    slot->preempted_host = host_of_steps();
  }
  for (const NewRequest& added : plan.new_requests) {
    Slot* slot = find(added.id);
    QUIRE_CHECK(slot != nullptr, "request {} is new after its end", added.id.value);
    running_.push_back(static_cast<int32_t>(slot - slots_.data()));
    if (slot->scheduled) continue;
    slot->scheduled = true;
    slot->scheduled_ns = slot->mark_ns = now_ns;
    slot->host_mark = host_of_steps();
    RequestRecord& record = (*sinks_.records)[static_cast<size_t>(slot->leg.request)];
    const int64_t wait_ns = now_ns - slot->delivered_ns;
    const int64_t kv_ns = std::min(wait_ns, counters_.kv_blocked_ns - slot->kv_blocked_mark);
    CauseTimes& parts = slot->leg.num_generated == 0 ? record.ttft_parts : record.decode_parts;
    parts[static_cast<size_t>(Cause::kKv)] += kv_ns;
    parts[static_cast<size_t>(Cause::kQueue)] += wait_ns - kv_ns;
    if (slot->leg.num_generated > 0) {
      parts[static_cast<size_t>(Cause::kNetwork)] += slot->delivered_ns - slot->last_token_ns;
      continue;
    }
    record.first_scheduled_ns = now_ns;
    parts[static_cast<size_t>(Cause::kHost)] += slot->delivered_ns - record.arrival_ns;
    const Request* request = scheduler_.find(added.id);
    record.cached_tokens = request == nullptr ? 0 : request->num_cached_tokens;
  }
}

void Replica::drop_from_running(const Slot& slot) {
  const auto it =
      std::find(running_.begin(), running_.end(), static_cast<int32_t>(&slot - slots_.data()));
  QUIRE_CHECK(it != running_.end(), "request {} was not running", slot.id.value);
  *it = running_.back();
  running_.pop_back();
}

// Returns what the time since the slot's mark went to, and moves the mark.
CauseTimes Replica::close_interval(Slot& slot, int64_t now_ns) {
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

void Replica::take_token(Slot& slot, int64_t now_ns) {
  ++slot.known_tokens;
  slot.num_open = std::max(0, slot.num_open - 1);  // a token of a run was never open
  if (slot.recovering) {
    slot.recovering = false;
    slot.kv_ns += now_ns - slot.preempted_ns;
    slot.host_mark += counters_.host_ns - slot.preempted_host;
  }
  RequestRecord& record = (*sinks_.records)[static_cast<size_t>(slot.leg.request)];
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

void Replica::add_gap(int64_t ns) {
  if (ns != gap_ns_) flush_gaps();
  gap_ns_ = ns;
  ++num_gaps_;
}

void Replica::flush_gaps() {
  if (num_gaps_ > 0) sinks_.stats->itl.add(gap_ns_, num_gaps_);
  num_gaps_ = 0;
}

void Replica::end_leg(Slot& slot, int64_t now_ns) {
  RequestRecord& record = (*sinks_.records)[static_cast<size_t>(slot.leg.request)];
  const CauseTimes parts = close_interval(slot, now_ns);
  for (size_t i = 0; i < parts.size(); ++i) record.decode_parts[i] += parts[i];
  record.last_token_ns = now_ns;
  record.replica = index_;
  record.output_tokens = slot.leg.num_generated + slot.known_tokens - slot.leg.prompt_tokens;
  drop_from_running(slot);
  const Delivery leg = slot.leg;
  unload(leg);
  free_slots_.push_back(static_cast<int32_t>(&slot - slots_.data()));
  slot.id = {};
  sinks_.on_leg_done(index_, leg, now_ns);
}

}  // namespace quire::sim
