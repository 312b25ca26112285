// This file has a replica's deliveries and the start and the end of steps. The books of one request
// are in replica_request.cc, runs of decode steps in replica_run.cc.
#include "sim/fleet/replica.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/kv_plan.h"
#include "sim/workload/token_content.h"

namespace quire::sim {

// This bounds a pool whose size was not asked for: a toy model on a large device would have
// billions of blocks, each of which takes memory here.
constexpr int32_t kMostPlannedBlocks = 1 << 22;

namespace {

Result<KvSizing> plan_blocks(const ReplicaSpec& spec) {
  ExecutorInfo model = spec.model;
  // KV that is reserved in one piece is as long as requests may be here, not as the model's.
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

class Replica::Drafts final : public Drafter {
 public:
  explicit Drafts(Replica& replica) : replica_(replica) {}

  void propose(std::span<DraftQuery> queries) override {
    tokens_.resize(std::max(tokens_.size(), queries.size()));
    for (size_t i = 0; i < queries.size(); ++i) {
      const Slot* slot = replica_.find(queries[i].request->id);
      QUIRE_CHECK(slot != nullptr, "request {} drafts after its end", queries[i].request->id.value);
      tokens_[i].clear();
      for (int32_t k = 0; k < queries[i].max_drafts; ++k) {
        const int32_t position = queries[i].request->num_tokens() + k;
        const TokenId right = replica_.output_token(*slot, position);
        tokens_[i].push_back(is_right(right, position) ? right : right ^ 1);
      }
      queries[i].token_ids = tokens_[i];
      queries[i].draft_class.prior = replica_.spec_.draft_acceptance;
    }
  }
  void forget(RequestId) override {}

 private:
  // The same draft at the same place, however often it is made.
  bool is_right(TokenId token_id, int32_t position) const {
    const uint64_t drawn =
        stream_id(static_cast<uint64_t>(token_id), static_cast<uint64_t>(position));
    return static_cast<double>(drawn >> 11) * 0x1p-53 < replica_.spec_.draft_acceptance;
  }

  Replica& replica_;
  std::vector<std::vector<TokenId>> tokens_;
};

Replica::Replica(int32_t index, const ReplicaSpec& spec, ReplicaSinks& sinks,
                 const EngineOptions& engine, int32_t num_blocks)
    : index_(index),
      spec_(spec),
      overlapped_(engine.scheduler.async_scheduling),
      sinks_(sinks),
      kv_(spec.kv_spec, num_blocks, engine.kv),
      drafts_(std::make_unique<Drafts>(*this)),
      scheduler_(engine.scheduler, kv_, drafts_.get()),
      may_hold_back_(may_hold_back()) {
  counters_.num_kv_blocks = kv_.stats().num_usable_blocks;
  if (spec.tier.capacity_tokens > 0) {
    tier_.emplace(spec.tier, kv_.block_size(), spec.kv_bytes_per_token, engine.kv.hash_seed);
  }
}

int32_t Replica::probe(std::span<const TokenId> prompt) const {
  return kv_.probe(prompt, {}).num_tokens;
}

RouteLoad Replica::exact_load() const {
  RouteLoad load{.num_requests = load_.num_requests, .num_outputs_left = 0};
  for (const Pending& pending : pending_) {
    load.num_prompt_tokens += pending.leg.prompt_tokens;
    load.num_outputs_left += pending.leg.output_tokens;
    load.prefill_us += pending.leg.prefill_us;
  }
  for (const Pending& pending : held_back_) {
    load.num_prompt_tokens += pending.leg.prompt_tokens;
    load.num_outputs_left += pending.leg.output_tokens;
    load.prefill_us += pending.leg.prefill_us;
  }
  for (const Slot& slot : slots_) {
    const Request* request = slot.id == RequestId{} ? nullptr : scheduler_.find(slot.id);
    if (request == nullptr) continue;
    load.num_prompt_tokens += slot.known_tokens;
    load.num_outputs_left += slot.leg.prompt_tokens + slot.leg.output_tokens - slot.known_tokens;
    if (slot.has_token) continue;
    const double left = 1.0 - static_cast<double>(request->num_computed_tokens) /
                                  static_cast<double>(slot.leg.prompt_tokens);
    load.prefill_us += std::max(0.0, left) * slot.leg.prefill_us;
  }
  load.num_tokens = load.num_prompt_tokens + load.num_outputs_left;
  return load;
}

int64_t Replica::num_kv_tokens() const {
  return int64_t{counters_.num_kv_blocks} * kv_.block_size() / std::max(1, kv_.tables().sizing().num_groups());
}

ReplicaCounters Replica::counters() const {
  ReplicaCounters all = counters_;
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
  Pending pending{.leg = leg,
                  .delivered_ns = now_ns,
                  .ready_ns = now_ns,
                  .kv_blocked_mark = counters_.kv_blocked_ns,
                  .kv_tokens = leg.kv_tokens};
  if (tier_ && leg.kv_tokens == 0) {
    std::vector<TokenId> prompt;
    const SimRequest& request = sinks_.workload->requests[static_cast<size_t>(leg.request)];
    sinks_.workload->fill_prompt(request, prompt);
    const int32_t num_cached = probe(prompt);
    if (const int32_t num_loaded = tier_->lookup(prompt, num_cached); num_loaded > 0) {
      pending.ready_ns = tier_->load(num_loaded, now_ns);
      pending.kv_tokens = num_cached + num_loaded;
      counters_.tier_hits += num_loaded;
    }
  }
  pending_.push_back(pending);
  ++load_.num_requests;
  load_.num_tokens += leg.prompt_tokens + leg.output_tokens;
  load_.num_prompt_tokens += leg.prompt_tokens;
  load_.prefill_us += leg.prefill_us;
  if (!run_ends_ns_.empty()) {
    // The run's last step is the one that is under way, or the one that is planned already.
    const auto current = std::lower_bound(run_ends_ns_.begin(), run_ends_ns_.end(),
                                          std::max(pending.ready_ns, now_ns));
    const auto num_left = static_cast<int64_t>(run_ends_ns_.end() - current);
    run_ends_ns_.resize(run_ends_ns_.size() - static_cast<size_t>(std::max<int64_t>(
                                                  0, num_left - (overlapped_ ? 2 : 1))));
  } else if (in_flight_.empty()) {
    start_at_ns_ = std::min(start_at_ns_, pending.ready_ns);
  } else if (!overlapped_ && has_room()) {
    start_at_ns_ = std::min(start_at_ns_, std::max(pending.ready_ns, stage_free_ns_));
  }
}

ReplicaEvent Replica::next() const {
  if (!run_ends_ns_.empty()) return {run_ends_ns_.back(), EventPhase::kFinish};
  if (!in_flight_.empty() && in_flight_.front().end_ns <= start_at_ns_) {
    return {in_flight_.front().end_ns, EventPhase::kFinish};
  }
  return {start_at_ns_, EventPhase::kStart};
}

void Replica::process() {
  const ReplicaEvent event = next();
  QUIRE_CHECK(event.ns != kNever, "replica {} has nothing to do", index_);
  if (event.phase == EventPhase::kStart) return start(event.ns);
  if (!run_ends_ns_.empty()) {
    finish_run();
  } else {
    finish_step();
  }
  start_at_ns_ = std::max(event.ns, stage_free_ns_);
}

// --- A step's start ---

// Returns the host's part of all steps that have begun or will begin before the next one.
int64_t Replica::host_of_steps() const {
  int64_t sum = counters_.host_ns;
  for (const InFlight& step : in_flight_) sum += step.host_ns;
  return sum;
}

bool Replica::has_room() const {
  const int32_t depth = overlapped_ ? 2 : spec_.pipeline_depth;
  return static_cast<int32_t>(in_flight_.size()) < depth;
}

void Replica::start(int64_t now_ns) {
  start_at_ns_ = kNever;
  take_pending(std::min(now_ns, std::exchange(visible_ns_, kNever)));
  if (plan_run(now_ns)) return;
  draining_ = may_drain();
  if (draining_) return;
  const StepPlan& plan = scheduler_.schedule(now_ns / 1000);
  if (!plan.empty()) launch(plan, now_ns);
  if (!plan.empty() && has_room()) {
    start_at_ns_ = overlapped_ ? now_ns : stage_free_ns_;
  } else if (in_flight_.empty()) {
    for (const Pending& p : pending_) start_at_ns_ = std::min(start_at_ns_, p.ready_ns);
  }
}

// Returns whether the scheduler does the same while it knows only the first requests that wait: in
// order of arrival nobody further back is looked at, and a queue that holds all refuses nobody.
bool Replica::may_hold_back() const {
  const SchedulerConfig& config = scheduler_.config();
  const auto num_requests = static_cast<int64_t>(sinks_.workload->requests.size());
  return config.policy == SchedulingPolicy::kFcfs && config.express_tokens == 0 &&
         spec_.tier.capacity_tokens == 0 && config.max_num_queued_reqs >= num_requests &&
         config.max_num_queued_tokens / std::max<int64_t>(1, num_requests) >= config.max_model_len;
}

// Returns whether the scheduler cannot refuse it.
bool Replica::is_sure_to_enter(const Delivery& leg) const {
  const int32_t max_model_len = scheduler_.config().max_model_len;
  if (leg.prompt_tokens >= max_model_len) return false;
  const auto most =
      std::min<int64_t>(int64_t{leg.prompt_tokens} + leg.output_tokens, max_model_len);
  const BlockCounts blocks = kv_.tables().sizing().blocks_for(static_cast<int32_t>(most));
  const BlockCounts usable = kv_.stores().num_usable();
  return blocks[KvPool::kAttention] <= usable[KvPool::kAttention] &&
         blocks[KvPool::kState] <= usable[KvPool::kState];
}

int32_t Replica::num_waiting() const {
  return scheduler_.num_waiting() + static_cast<int32_t>(held_back_.size());
}

void Replica::take_pending(int64_t now_ns) {
  const SchedulerConfig& config = scheduler_.config();
  // So many may be admitted in one step, or be looked at past a head that does not fit.
  const int32_t num_known = config.max_running() + config.max_skip_ahead + 1;
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (it->ready_ns > now_ns) {
      ++it;
    } else if (may_hold_back_ && it->kv_tokens == 0 && is_sure_to_enter(it->leg)) {
      held_back_.push_back(*it);
      it = pending_.erase(it);
    } else if (join(*it, now_ns)) {
      it = pending_.erase(it);
    } else {
      break;  // its KV has no room yet, and nobody passes it
    }
  }
  while (!held_back_.empty() && scheduler_.num_waiting() < num_known) {
    join(held_back_.front(), now_ns);
    held_back_.pop_front();
  }
}

int32_t Replica::num_kv_blocks_in_use() const {
  const KvStats stats = kv_.stats();
  return stats.num_usable_blocks - stats.num_free_blocks;
}

// Returns how many times every running request can take a block and leave as much: a step that is
// planned ahead asks for blocks while the one before it has not given any back.
int32_t Replica::spare_rounds() const {
  const int64_t round = static_cast<int64_t>(running_.size()) * kv_.tables().sizing().num_groups();
  return static_cast<int32_t>(kv_.stats().num_free_blocks / std::max<int64_t>(1, round)) - 1;
}

// Returns whether the step behind the one under way may be planned when that one ends instead of
// now, so that a run of decodes can be walked through at once. Nothing happens in between that the
// plan would see but arrivals, and visible_ns_ keeps those out.
bool Replica::may_drain() const {
  if (!overlapped_ || !spec_.fast_forward || sinks_.on_step || tier_ || in_flight_.empty() ||
      !last_step_decoded_ || !pending_.empty()) {
    return false;
  }
  const SchedulerConfig& config = scheduler_.config();
  if (scheduler_.num_waiting() > 0 && scheduler_.num_running() < config.max_num_seqs) return false;
  if (spare_rounds() < 1) return false;
  return std::all_of(running_.begin(), running_.end(), [this](int32_t index) {
    const Slot& slot = slots_[static_cast<size_t>(index)];
    const int32_t num_left = slot.leg.prompt_tokens + slot.leg.output_tokens - slot.known_tokens;
    return slot.num_open == 1 && num_left > kMinRun + 1;
  });
}

void Replica::launch(const StepPlan& plan, int64_t now_ns) {
  const int64_t earliest = in_flight_.empty() ? 0 : in_flight_.back().end_ns;
  if (overlapped_) now_ns = std::max(now_ns, earliest);
  note_plan(plan, now_ns);
  InFlight step;
  if (!spare_results_.empty()) {
    step.result = std::move(spare_results_.back());
    spare_results_.pop_back();
  }
  answer(plan, step.result);
  const StepTime time = spec_.timer->time(shape_);
  step.begin_ns = now_ns;
  step.end_ns = std::max(now_ns + time.total_ns, earliest);
  stage_free_ns_ = overlapped_ ? 0 : now_ns + time.stage_ns;
  step.host_ns = spec_.timer->host_ns(shape_);
  int64_t kv_tokens = shape_.decode.context;
  for (const PromptChunk& c : shape_.chunks) kv_tokens += int64_t{c.context} + c.num_tokens;
  const SchedulerStats stats = scheduler_.stats();
  const int64_t duration_ns = spec_.pipeline_depth == 1 ? time.total_ns : time.stage_ns;
  if (stats.num_head_waits > last_head_waits_) {
    counters_.kv_blocked_ns += duration_ns;
  } else if (num_waiting() > 0) {
    counters_.seq_blocked_ns += duration_ns;
  }
  last_head_waits_ = stats.num_head_waits;
  last_step_decoded_ = shape_.chunks.empty() && plan.new_requests.empty();
  ++counters_.num_steps;
  counters_.num_tokens += shape_.num_tokens;
  counters_.peak_kv_blocks = std::max(counters_.peak_kv_blocks, num_kv_blocks_in_use());
  counters_.peak_running = std::max(counters_.peak_running, stats.num_running);
  counters_.peak_waiting = std::max(counters_.peak_waiting, num_waiting());
  account_step(now_ns, duration_ns, kv_tokens);
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

void Replica::account_step(int64_t begin_ns, int64_t duration_ns, int64_t kv_tokens) {
  counters_.busy_ns += duration_ns;
  TimeSlice& slice = sinks_.stats->timeline.at(begin_ns);
  slice.busy_ns += duration_ns;
  slice.running_ns += duration_ns * scheduler_.num_running();
  slice.waiting_ns += duration_ns * num_waiting();
  slice.kv_token_ns += duration_ns * kv_tokens;
}

// Answers with the shape of the plan, and made-up tokens for each request that has all its tokens
// computed.
void Replica::answer(const StepPlan& plan, StepResult& result) {
  shape_.clear();
  const std::span<const int32_t> windows = spec_.timer->windows();
  result.step_id = plan.step_id;
  result.requests.resize(plan.scheduled.size());
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    Slot* slot = find(scheduled.id);
    QUIRE_CHECK(slot != nullptr, "request {} was scheduled after its end", scheduled.id.value);
    const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
    int32_t position = end - scheduled.num_drafts;
    const bool sampled = position == slot->known_tokens + slot->num_open;
    slot->num_open += sampled;
    shape_.add(scheduled.num_computed_tokens, scheduled.num_scheduled_tokens, sampled, windows);
    shape_.num_sampled += scheduled.num_drafts;
    RequestStepResult& answer = result.requests[i];
    answer.id = scheduled.id;
    answer.sampled_token_ids.clear();
    if (!sampled) continue;
    // The drafts that come out, and one token behind them.
    std::vector<TokenId>& tokens = answer.sampled_token_ids;
    tokens.push_back(output_token(*slot, position));
    for (const TokenId draft : plan.drafts(scheduled)) {
      if (draft != tokens.back()) break;
      tokens.push_back(output_token(*slot, ++position));
    }
  }
}

// --- A step's end ---

void Replica::finish_step() {
  InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  const int64_t now_ns = step.end_ns;
  counters_.host_ns += step.host_ns;
  int64_t num_tokens = 0;
  for (const RequestUpdate& update : scheduler_.update(step.result, now_ns / 1000)) {
    if (update.new_token_ids.empty()) continue;
    Slot* slot = find(update.id);
    QUIRE_CHECK(slot != nullptr, "request {} got a token after its end", update.id.value);
    num_tokens += std::ssize(update.new_token_ids);
    for (size_t i = 0; i < update.new_token_ids.size(); ++i) take_token(*slot, now_ns);
    if (update.finished) end_leg(*slot, now_ns);
  }
  flush_gaps();
  counters_.num_output_tokens += num_tokens;
  sinks_.stats->timeline.at(now_ns).output_tokens += num_tokens;
  spare_results_.push_back(std::move(step.result));
  if (std::exchange(draining_, false)) visible_ns_ = step.begin_ns;
  if (tier_) drain_events();
}

void Replica::drain_events() {
  kv_.drain_events(events_);
  tier_->on_events(events_);
}

}  // namespace quire::sim
