#include "sim/replica/arrivals.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/workload/token_content.h"

namespace quire::sim {

Arrivals::Arrivals(const ReplicaSpec& spec, const Workload& workload, KvManager& kv,
                   Scheduler& scheduler, SlotTable& slots, ReplicaBooks& books)
    : spec_(spec),
      workload_(workload),
      kv_(kv),
      scheduler_(scheduler),
      slots_(slots),
      books_(books),
      may_hold_back_(may_hold_back(std::ssize(workload.requests))) {}

// Returns whether the scheduler's decisions are the same if it knows only the first waiting
// requests. They are if it admits in order of arrival and its queue is large enough for all
// requests, so that it refuses none.
bool Arrivals::may_hold_back(int64_t num_requests) const {
  const SchedulerConfig& config = scheduler_.config();
  return config.policy == SchedulingPolicy::kFcfs && config.express_tokens == 0 &&
         spec_.tier.capacity_tokens == 0 && config.max_loras == 0 &&
         config.max_num_queued_reqs >= num_requests &&
         config.max_num_queued_tokens / std::max<int64_t>(1, num_requests) >= config.max_model_len;
}

// Returns whether the scheduler is sure to accept the leg.
bool Arrivals::is_sure_to_enter(const Delivery& leg) const {
  const int32_t max_model_len = scheduler_.config().max_model_len;
  if (leg.prompt_tokens >= max_model_len) return false;
  const auto most =
      std::min<int64_t>(int64_t{leg.prompt_tokens} + leg.output_tokens, max_model_len);
  const BlockCounts blocks = kv_.tables().sizing().blocks_for(static_cast<int32_t>(most));
  return blocks.fits_in(kv_.stores().num_usable());
}

void Arrivals::take(int64_t now_ns) {
  const SchedulerConfig& config = scheduler_.config();
  // This many may be admitted in one step, or be examined behind a head that does not fit.
  const int32_t num_known = config.max_running() + config.max_skip_ahead + 1;
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (it->ready_ns > now_ns) {
      ++it;
      continue;
    }
    if (it->kv_blocked_mark < 0) it->kv_blocked_mark = books_.counters().kv_blocked_ns;
    if (may_hold_back_ && it->kv_tokens == 0 && is_sure_to_enter(it->leg)) {
      held_back_.push_back(*it);
      it = pending_.erase(it);
    } else if (join(*it, now_ns)) {
      it = pending_.erase(it);
    } else {
      break;  // its KV does not fit yet, and no later leg may overtake it
    }
  }
  while (!held_back_.empty() && scheduler_.num_waiting() < num_known) {
    join(held_back_.front(), now_ns);
    held_back_.pop_front();
  }
}

int64_t Arrivals::first_ready_ns() const {
  int64_t first_ns = kNever;
  for (const Arrival& arrival : pending_) first_ns = std::min(first_ns, arrival.ready_ns);
  return first_ns;
}

void Arrivals::add_to(RouteLoad& load) const {
  for (const std::deque<Arrival>* arrivals : {&pending_, &held_back_}) {
    for (const Arrival& arrival : *arrivals) {
      load.num_prompt_tokens += arrival.leg.prompt_tokens;
      load.num_outputs_left += arrival.leg.output_tokens;
      load.prefill_us += arrival.leg.prefill_us;
    }
  }
}

std::shared_ptr<const SamplingParams> Arrivals::params(int32_t max_tokens) {
  auto& entry = params_[max_tokens];
  if (entry == nullptr) {
    SamplingParams p;
    p.max_tokens = max_tokens;
    p.ignore_eos = true;
    entry = std::make_shared<const SamplingParams>(std::move(p));
  }
  return entry;
}

std::shared_ptr<const Adapter> Arrivals::adapter(int32_t number) {
  if (number == 0) return nullptr;
  auto& entry = adapters_[number];
  if (entry == nullptr) {
    auto made = std::make_shared<Adapter>();
    made->name = made->content_key = std::to_string(number);
    entry = std::move(made);
  }
  return entry;
}

// Returns false if the KV that was transferred with the leg does not fit at the moment.
bool Arrivals::join(const Arrival& arrival, int64_t now_ns) {
  const Delivery& leg = arrival.leg;
  const SimRequest& source = slots_.request(leg);
  // The scheduler would refuse such a prompt too, so its tokens need not be generated.
  if (leg.prompt_tokens >= scheduler_.config().max_model_len) {
    books_.refuse(leg, Outcome::kTooLong, now_ns);
    return true;
  }
  Request request;
  request.token_ids.reserve(static_cast<size_t>(leg.prompt_tokens) +
                            static_cast<size_t>(leg.output_tokens));
  workload_.fill_prompt(source, request.token_ids);
  if (leg.num_generated > 0) {
    request.token_ids.resize(static_cast<size_t>(leg.prompt_tokens));
    fill_content(source.content, source.input_tokens,
                 std::span(request.token_ids).subspan(static_cast<size_t>(source.input_tokens)));
  }
  if (arrival.kv_tokens > 0 && !put_kv(request.token_ids, arrival.kv_tokens) &&
      scheduler_.has_unfinished()) {
    return false;
  }
  Slot& slot = slots_.open(leg, arrival.delivered_ns, arrival.kv_blocked_mark);
  request.id = slot.id;
  request.params = params(leg.output_tokens);
  request.priority = source.priority;
  request.adapter = adapter(source.adapter);
  if (request.adapter != nullptr) request.cache_keys.adapter = request.adapter->content_key;
  request.arrival_us = arrival.delivered_ns / 1000;
  request.media = workload_.pictures_of(source);
  const Status added = scheduler_.add(std::move(request), now_ns / 1000);
  if (!added.ok()) {
    slots_.close(slot);
    const bool full = added.code() == StatusCode::kResourceExhausted;
    books_.refuse(leg, full ? Outcome::kRefused : Outcome::kTooLong, now_ns);
  } else if (leg.kv_tokens > 0) {
    ++books_.counters().num_received;
  }
  return true;
}

// Puts transferred KV into the prefix cache: whole blocks are written and registered, and the
// request hits them when it is admitted.
bool Arrivals::put_kv(std::span<const TokenId> tokens, int32_t num_tokens) {
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

}  // namespace quire::sim
