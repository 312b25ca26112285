#include "sim/replica/replica.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/kv_plan.h"
#include "sim/workload/token_content.h"

namespace quire::sim {

// The limit for pools whose number of blocks was not given. A toy model on a large device would
// have billions of blocks, each of which takes memory in the simulator.
constexpr int32_t kMostPlannedBlocks = 1 << 22;

namespace {

Result<KvSizing> plan_blocks(const ReplicaSpec& spec) {
  ExecutorInfo model = spec.model;
  // Reserved KV has the length of the longest request here, not of the model's maximum.
  const int32_t wanted = spec.engine.scheduler.max_model_len;
  if (wanted > 1) model.max_model_len = std::min(model.max_model_len, wanted);
  QUIRE_ASSIGN_OR_RETURN(KvSizing sizing, plan_kv(spec.engine, model, spec.kv_spec, spec.kv_bytes));
  if (!spec.engine.num_blocks) {
    sizing.plan.num_blocks = std::min(sizing.plan.num_blocks, kMostPlannedBlocks);
    sizing.plan.num_state_blocks = std::min(sizing.plan.num_state_blocks, kMostPlannedBlocks);
  }
  return sizing;
}

}  // namespace

Result<int64_t> Replica::book_bytes(const ReplicaSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(const KvSizing sizing, plan_blocks(spec));
  return kv_book_bytes(sizing.plan.num_blocks, spec.kv_spec.block_size);
}

Result<std::unique_ptr<Replica>> Replica::create(int32_t index, const ReplicaSpec& spec,
                                                 ReplicaSinks& sinks) {
  QUIRE_ASSIGN_OR_RETURN(const KvSizing sizing, plan_blocks(spec));
  EngineOptions engine = spec.engine;
  engine.scheduler.max_model_len = sizing.max_model_len;
  engine.kv.max_sequence_tokens = sizing.max_model_len;
  engine.kv.num_state_blocks = sizing.plan.num_state_blocks;
  engine.kv.max_step_tokens = engine.scheduler.max_uncommitted_tokens();
  engine.kv.residency_sample_rate = 0;
  engine.kv.enable_events = spec.tier.capacity_tokens > 0;
  engine.kv.max_events = std::numeric_limits<int32_t>::max();
  QUIRE_RETURN_IF_ERROR(engine.scheduler.validate());
  if (spec.pipeline_depth < 1) {
    return invalid_argument("replica: expected a pipeline of at least 1 step, got {}",
                            spec.pipeline_depth);
  }
  if (spec.engine.scheduler.async_scheduling && spec.pipeline_depth > 1) {
    return invalid_argument("replica: async scheduling is for one pipeline stage, got {}",
                            spec.pipeline_depth);
  }
  return std::unique_ptr<Replica>(new Replica(index, spec, sinks, engine, sizing.plan.num_blocks));
}

Replica::Replica(int32_t index, const ReplicaSpec& spec, ReplicaSinks& sinks,
                 const EngineOptions& engine, int32_t num_blocks)
    : index_(index),
      spec_(spec),
      overlapped_(engine.scheduler.async_scheduling),
      sinks_(sinks),
      kv_(spec.kv_spec, num_blocks, engine.kv),
      slots_(*sinks.workload),
      drafts_(slots_, spec.draft_acceptance, spec.drafting.step_times),
      scheduler_(engine.scheduler, kv_, &drafts_),
      books_(index, sinks, slots_, scheduler_),
      arrivals_(spec, *sinks.workload, kv_, scheduler_, slots_, books_),
      run_(spec, sinks, kv_, scheduler_, slots_, books_) {
  books_.counters().num_kv_blocks = kv_.stats().num_usable_blocks;
  if (spec.tier.capacity_tokens > 0) {
    tier_.emplace(spec.tier, kv_.block_size(), spec.kv_bytes_per_token, engine.kv.hash_seed);
  }
}

int32_t Replica::probe(std::span<const TokenId> prompt) const {
  return kv_.probe(prompt, {}).num_tokens;
}

RouteLoad Replica::exact_load() const {
  RouteLoad load{.num_requests = books_.load().num_requests, .num_outputs_left = 0};
  arrivals_.add_to(load);
  for (const Slot& slot : slots_.all()) {
    const Request* request = slot.id == RequestId{} ? nullptr : scheduler_.find(slot.id);
    if (request == nullptr) continue;
    load.num_prompt_tokens += slot.known_tokens;
    load.num_outputs_left += slot.num_tokens_left();
    if (slot.has_token) continue;
    const double left = 1.0 - static_cast<double>(request->num_computed_tokens) /
                                  static_cast<double>(slot.leg.prompt_tokens);
    load.prefill_us += std::max(0.0, left) * slot.leg.prefill_us;
  }
  load.num_tokens = load.num_prompt_tokens + load.num_outputs_left;
  return load;
}

int64_t Replica::num_kv_tokens() const {
  return int64_t{books_.counters().num_kv_blocks} * kv_.block_size() /
         std::max(1, kv_.tables().sizing().num_groups());
}

ReplicaCounters Replica::counters() const {
  ReplicaCounters all = books_.counters();
  const SchedulerStats stats = scheduler_.stats();
  all.num_preemptions = stats.num_preemptions;
  all.num_recomputed_tokens = stats.num_recomputed_tokens;
  all.prefix_queries = stats.prefix_queries;
  all.prefix_hits = stats.prefix_hits;
  all.reserved_slot_steps = stats.reserved_slot_steps;
  all.unused_slot_steps = stats.unused_slot_steps;
  return all;
}

// --- Events ---

void Replica::deliver(const Delivery& leg, int64_t now_ns) {
  Arrival arrival{
      .leg = leg, .delivered_ns = now_ns, .ready_ns = now_ns, .kv_tokens = leg.kv_tokens};
  if (tier_ && leg.kv_tokens == 0) {
    std::vector<TokenId> prompt;
    sinks_.workload->fill_prompt(slots_.request(leg), prompt);
    const int32_t num_cached = probe(prompt);
    if (const int32_t num_loaded = tier_->touch(prompt, num_cached); num_loaded > 0) {
      arrival.ready_ns = tier_->load(num_loaded, now_ns);
      arrival.kv_tokens = num_cached + num_loaded;
      arrival.kv_blocked_mark = books_.counters().kv_blocked_ns;
      books_.counters().tier_hits += num_loaded;
    }
  }
  arrivals_.add(arrival);
  books_.add_load(leg);
  if (!run_.ends_ns().empty()) {
    run_.cut_at(std::max(arrival.ready_ns, now_ns), overlapped_ ? 1 : 0);
  } else if (in_flight_.empty()) {
    start_at_ns_ = std::min(start_at_ns_, arrival.ready_ns);
  } else if (!overlapped_ && has_room()) {
    start_at_ns_ = std::min(start_at_ns_, std::max(arrival.ready_ns, stage_free_ns_));
  }
}

ReplicaEvent Replica::next() const {
  if (!run_.ends_ns().empty()) return {run_.ends_ns().back(), EventPhase::kFinish};
  if (!in_flight_.empty() && in_flight_.front().end_ns <= start_at_ns_) {
    return {in_flight_.front().end_ns, EventPhase::kFinish};
  }
  return {start_at_ns_, EventPhase::kStart};
}

void Replica::process() {
  const ReplicaEvent event = next();
  QUIRE_CHECK(event.ns != kNever, "replica {} has nothing to do", index_);
  if (event.phase == EventPhase::kStart) return start(event.ns);
  if (!run_.ends_ns().empty()) {
    stage_free_ns_ = run_.ends_ns().back();
    const int64_t last_begin_ns = run_.finish(num_waiting());
    if (overlapped_) visible_ns_ = last_begin_ns;
  } else {
    finish_step();
  }
  start_at_ns_ = std::max(event.ns, stage_free_ns_);
}

// --- A step's start ---

// Returns the host time of all steps that begin before the next one.
int64_t Replica::host_of_steps() const {
  int64_t sum = books_.counters().host_ns;
  for (const InFlight& step : in_flight_) sum += step.host_ns;
  return sum;
}

bool Replica::has_room() const {
  const int32_t depth = overlapped_ ? 2 : spec_.pipeline_depth;
  return static_cast<int32_t>(in_flight_.size()) < depth;
}

void Replica::start(int64_t now_ns) {
  start_at_ns_ = kNever;
  arrivals_.take(std::min(now_ns, std::exchange(visible_ns_, kNever)));
  if (may_run()) {
    const int64_t stop_ns = std::min(horizon_ns_, arrivals_.first_ready_ns());
    if (run_.plan(now_ns, stop_ns)) return;
  }
  draining_ = may_drain();
  if (draining_) return;
  const StepPlan& plan = scheduler_.schedule(now_ns / 1000);
  if (!plan.empty()) launch(plan, now_ns);
  if (!plan.empty() && has_room()) {
    start_at_ns_ = overlapped_ ? now_ns : stage_free_ns_;
  } else if (in_flight_.empty()) {
    start_at_ns_ = std::min(start_at_ns_, arrivals_.first_ready_ns());
  }
}

bool Replica::may_run() const {
  return spec_.fast_forward && !sinks_.on_step && last_step_decoded_ && !tier_ &&
         in_flight_.empty() && spec_.pipeline_depth == 1 &&
         !(overlapped_ && arrivals_.any_pending());
}

// Returns whether the next step may be planned when the running step ends, instead of now, so that
// a run of decodes can follow. In between only arrivals could change the plan, and visible_ns_
// excludes them.
bool Replica::may_drain() const {
  if (!overlapped_ || !spec_.fast_forward || sinks_.on_step || tier_ || in_flight_.empty() ||
      !last_step_decoded_ || arrivals_.any_pending()) {
    return false;
  }
  return scheduler_.max_decode_run(/*num_under_way=*/1) >= DecodeRun::kMinSteps;
}

void Replica::launch(const StepPlan& plan, int64_t now_ns) {
  const int64_t earliest = in_flight_.empty() ? 0 : in_flight_.back().end_ns;
  if (overlapped_) now_ns = std::max(now_ns, earliest);
  books_.note_plan(plan, host_of_steps(), now_ns);
  InFlight step;
  if (!spare_results_.empty()) {
    step.result = std::move(spare_results_.back());
    spare_results_.pop_back();
  }
  answer(plan, step.result);
  StepTime time = spec_.timer->time(shape_);
  const int64_t adapters_ns = spec_.adapters.step_ns(step_adapters_.count(), shape_.num_tokens);
  const int64_t drafting_ns = spec_.drafting.timer ? drafting_.ns(*spec_.drafting.timer) : 0;
  time.total_ns += adapters_ns + drafting_ns;
  time.stage_ns += adapters_ns / spec_.pipeline_depth + drafting_ns;
  step.begin_ns = now_ns;
  step.end_ns = std::max(now_ns + time.total_ns, earliest);
  stage_free_ns_ = overlapped_ ? 0 : now_ns + time.stage_ns;
  step.host_ns = spec_.timer->host_ns(shape_);
  int64_t kv_tokens = shape_.decode.context;
  for (const PromptChunk& c : shape_.chunks) kv_tokens += int64_t{c.context} + c.num_tokens;
  const SchedulerStats stats = scheduler_.stats();
  const int64_t duration_ns = spec_.pipeline_depth == 1 ? time.total_ns : time.stage_ns;
  ReplicaCounters& counters = books_.counters();
  books_.account_wait(duration_ns, num_waiting());
  last_step_decoded_ = shape_.chunks.empty() && plan.new_requests.empty();
  ++counters.num_steps;
  counters.num_tokens += shape_.num_tokens;
  counters.peak_running = std::max(counters.peak_running, stats.num_running);
  books_.note_peaks(kv_.stats(), num_waiting());
  books_.account_step(now_ns, duration_ns, kv_tokens, num_waiting());
  sinks_.stats->timeline.at(now_ns).prompt_tokens += shape_.num_tokens - shape_.num_sampled;
  if (sinks_.on_step) {
    sinks_.on_step({.replica = index_,
                    .begin_ns = now_ns,
                    .end_ns = step.end_ns,
                    .plan = &plan,
                    .shape = &shape_});
  }
  in_flight_.push_back(std::move(step));
}

// Makes the result of the plan, with generated tokens for each request whose tokens are all
// computed.
void Replica::answer(const StepPlan& plan, StepResult& result) {
  shape_.clear();
  shape_.add_pictures(plan);
  step_adapters_.clear();
  drafting_.clear();
  const std::span<const int32_t> windows = spec_.timer->windows();
  result.step_id = plan.step_id;
  result.requests.resize(plan.scheduled.size());
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    Slot* slot = slots_.find(scheduled.id);
    QUIRE_CHECK(slot != nullptr, "request {} was scheduled after its end", scheduled.id.value);
    const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
    int32_t position = end - scheduled.num_drafts;
    const bool sampled = position == slot->known_tokens + slot->num_open;
    slot->num_open += sampled;
    step_adapters_.add(slots_.request(slot->leg).adapter);
    if (spec_.drafting.timer)
      drafting_.add(scheduled, *spec_.drafting.timer, slot->num_read_by_drafter);
    shape_.add(scheduled.num_computed_tokens, scheduled.num_scheduled_tokens, sampled, windows);
    shape_.num_sampled += scheduled.num_drafts;
    RequestStepResult& answer = result.requests[i];
    answer.id = scheduled.id;
    answer.sampled_token_ids.clear();
    if (!sampled) continue;
    // The tokens are the accepted drafts, and one token behind them.
    std::vector<TokenId>& tokens = answer.sampled_token_ids;
    tokens.push_back(slots_.output_token(*slot, position));
    for (const TokenId draft : plan.drafts(scheduled)) {
      if (draft != tokens.back()) break;
      tokens.push_back(slots_.output_token(*slot, ++position));
    }
  }
}

// --- A step's end ---

void Replica::finish_step() {
  InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  const int64_t now_ns = step.end_ns;
  books_.counters().host_ns += step.host_ns;
  int64_t num_tokens = 0;
  for (const RequestUpdate& update : scheduler_.update(step.result, now_ns / 1000)) {
    if (update.new_token_ids.empty()) continue;
    Slot* slot = slots_.find(update.id);
    QUIRE_CHECK(slot != nullptr, "request {} got a token after its end", update.id.value);
    num_tokens += std::ssize(update.new_token_ids);
    for (size_t i = 0; i < update.new_token_ids.size(); ++i) books_.take_token(*slot, now_ns);
    if (update.finished) books_.end_leg(*slot, now_ns);
  }
  books_.flush_gaps();
  books_.counters().num_output_tokens += num_tokens;
  sinks_.stats->timeline.at(now_ns).output_tokens += num_tokens;
  spare_results_.push_back(std::move(step.result));
  if (std::exchange(draining_, false)) visible_ns_ = step.begin_ns;
  if (!tier_) return;
  kv_.drain_events(events_);
  tier_->on_events(events_);
}

}  // namespace quire::sim
