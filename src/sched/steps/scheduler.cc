// Scheduler: its parts, and the order in which they work.
#include "sched/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "sched/beams/beams.h"
#include "sched/budget/preemptions.h"
#include "sched/budget/step_budget.h"
#include "sched/grants/admission.h"
#include "sched/grants/draft_grants.h"
#include "sched/grants/running_grants.h"
#include "sched/requests/scheduler_state.h"
#include "sched/steps/decode_runs.h"
#include "sched/steps/intake.h"
#include "sched/steps/outcomes.h"
#include "sched/steps/plan_builder.h"
#include "sched/steps/scheduler_check.h"

namespace quire {

// Each part uses those above it.
class Scheduler::Impl {
 public:
  Impl(const SchedulerConfig& config, KvManager& kv, Drafter* used_drafter)
      : state{.config = config,
              .kv = kv,
              .drafter = used_drafter,
              .stops_for_forks = kv.spec().uses(KvPool::kState) && config.enable_chunked_prefill,
              .roster = Roster(state.config, kv, used_drafter),
              .stats = {}} {}

  SchedulerState state;
  StepBudget budget{state};
  Preemptions preemptions{state, budget};
  Beams beams{state, budget, preemptions};
  Intake intake{state, beams};
  RunningGrants running{state, budget, preemptions, beams};
  Admission admission{state, budget, preemptions, beams};
  DraftGrants drafts{state, budget};
  PlanBuilder plans{state, budget};
  Outcomes outcomes{state, beams, drafts.planner(), plans};
  DecodeRuns decode_runs{state, budget, preemptions, admission};
  std::vector<RequestId> expired;
};

namespace {

void check_config(const SchedulerConfig& config, const KvManager& kv, const Drafter* drafter) {
  const Status valid = config.validate();
  QUIRE_CHECK(valid.ok(), "{}", valid.message());
  QUIRE_CHECK(drafter == nullptr || !kv.spec().uses(KvPool::kState),
              "a draft that is refused would leave its mark on the states of layers");
  const int32_t max_step = kv.options().max_step_tokens;
  QUIRE_CHECK(max_step == 0 || max_step >= config.max_uncommitted_tokens(),
              "KvOptions::max_step_tokens {} is below what may be under way of one request, {}",
              max_step, config.max_uncommitted_tokens());
}

// In a pipeline each step takes its share of the requests, so that the steps beside it have as
// many; those that this step leaves are for the next one.
int32_t most_requests_of_step(const SchedulerState& state) {
  const int32_t depth = state.config.pipeline_depth;
  if (depth == 1) return std::numeric_limits<int32_t>::max();
  const int32_t num_running = state.roster.num_running();
  const int32_t num_requests = std::min(num_running + state.roster.waiting.size(),
                                        std::max(num_running, state.config.max_running()));
  return std::max(1, (num_requests + depth - 1) / depth);
}

// In a pipeline prompts are computed in pieces. The last stage has no work until the first step
// reaches it, and a stage waits for another one whose step is longer. If step times are known, a
// piece has so many tokens that reading the weights once more takes at most an eighth of its time.
int32_t most_tokens_of_step(const SchedulerConfig& config, int32_t num_requests) {
  constexpr int32_t kUsualPiece = 64, kLeastPiece = 16;
  constexpr double kPartsOfRead = 8;
  if (config.pipeline_depth == 1 || !config.enable_chunked_prefill ||
      config.encoder_cache_tokens > 0) {
    return config.max_num_batched_tokens;
  }
  const StepTimeTable& times = config.step_time.predicted;
  const double piece = times.known() ? kPartsOfRead * times.step_us / times.prompt_token_us
                                     : static_cast<double>(kUsualPiece);
  const double most = std::max<double>(piece, kLeastPiece) + num_requests;
  return static_cast<int32_t>(std::min<double>(most, config.max_num_batched_tokens));
}

void debug_check([[maybe_unused]] const SchedulerState& state) {
#ifdef QUIRE_DEBUG_CHECKS
  const Status integrity = check_scheduler(state);
  QUIRE_DCHECK(integrity.ok(), "{}", integrity.message());
#endif
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config, KvManager& kv, Drafter* drafter) {
  if (config.num_speculative_tokens == 0) drafter = nullptr;
  check_config(config, kv, drafter);
  impl_ = std::make_unique<Impl>(config, kv, drafter);
}

Scheduler::~Scheduler() = default;

// --- Steps ---

StepPlan& Scheduler::schedule(int64_t now_us) {
  Impl& parts = *impl_;
  SchedulerState& state = parts.state;
  state.now_us = now_us;
  state.roster.recycle_finished();
  state.kv.begin_step(now_us);
  state.roster.media.cache().begin_step();
  const int32_t num_requests = most_requests_of_step(state);
  parts.budget.begin_step(most_tokens_of_step(state.config, num_requests), num_requests);
  parts.preemptions.begin_step();
  parts.beams.begin_step();
  parts.budget.promises.begin_step();
  parts.budget.time.begin_step();
  parts.running.grant();
  if (!parts.preemptions.any()) {
    parts.admission.admit();
    parts.drafts.grant();
  }
  StepPlan& plan = parts.plans.build();
  debug_check(state);
  return plan;
}

std::span<const RequestUpdate> Scheduler::update(const StepResult& result, int64_t now_us) {
  SchedulerState& state = impl_->state;
  const int64_t prompt_tokens_before = state.stats.num_prompt_tokens_computed;
  const std::span<const RequestUpdate> updates = impl_->outcomes.take(result);
  if (state.config.bounds_step_time()) impl_->budget.time.note_done(result.step_id, now_us);
  state.roster.limits.on_prefill(state.stats.num_prompt_tokens_computed - prompt_tokens_before,
                                 now_us - state.now_us);
  const KvStats kv = state.kv.stats();
  state.stats.reserved_slot_steps += kv.num_reserved_slots;
  state.stats.unused_slot_steps += kv.num_unused_slots;
  debug_check(state);
  return updates;
}

int32_t Scheduler::max_decode_run(int32_t num_under_way) const {
  return impl_->decode_runs.max_run(num_under_way);
}

void Scheduler::run_decodes(int64_t begin_us, std::span<const int64_t> end_us,
                            DecodeTokens& tokens) {
  QUIRE_DCHECK(std::ssize(end_us) <= max_decode_run(), "a run of {} of {} decode steps",
               end_us.size(), max_decode_run());
  impl_->decode_runs.run(begin_us, end_us, tokens);
  debug_check(impl_->state);
}

// --- Requests ---

Status Scheduler::add(Request request, int64_t) { return impl_->intake.add(std::move(request)); }

bool Scheduler::finish(RequestId id, RequestStatus status) {
  QUIRE_CHECK(is_finished(status), "finish() needs a finished status, got {}",
              static_cast<int>(status));
  Roster& roster = impl_->state.roster;
  Entry* entry = roster.find(id);
  if (entry == nullptr || entry->state == EntryState::kFinished) return false;
  const EntryState before = entry->state;
  if (entry->is_beam()) {
    impl_->beams.retire(*entry->beam_leader, status);
  } else {
    if (before == EntryState::kWaiting) roster.waiting.erase(*entry);
    if (before == EntryState::kForkWaiting) roster.forks.remove(*entry);
    roster.retire(*entry, status);
  }
  if (before == EntryState::kRunning) roster.compact_running();
  return true;
}

void Scheduler::hold(RequestId id, bool held) {
  if (Entry* entry = impl_->state.roster.find(id)) entry->held = held;
}

std::span<const RequestId> Scheduler::expire(int64_t now_us) {
  impl_->expired.clear();
  while (const std::optional<RequestId> id = impl_->state.roster.find_expired(now_us)) {
    impl_->expired.push_back(*id);
    finish(*id, RequestStatus::kFinishedError);
  }
  return impl_->expired;
}

void Scheduler::move_beams(std::span<const BeamMove> moves) { impl_->beams.note_moves(moves); }

// --- Settings and views ---

void Scheduler::set_step_times(const StepTimeTable& table) {
  impl_->state.config.step_time.predicted = table;
  impl_->budget.time.set_table(table);
}

void Scheduler::set_row_times(const RowTimes& times) {
  impl_->drafts.planner().set_row_times(times);
}

Status Scheduler::check_queue_room(int32_t num_requests, int64_t num_tokens) const {
  return impl_->state.roster.limits.check_room(num_requests, num_tokens);
}

int64_t Scheduler::retry_after_s() const { return impl_->state.roster.limits.retry_after_s(); }

const Request* Scheduler::find(RequestId id) const {
  const Entry* entry = impl_->state.roster.find(id);
  return entry == nullptr ? nullptr : &entry->request;
}

bool Scheduler::has_unfinished() const { return num_waiting() + num_running() > 0; }
int32_t Scheduler::num_running() const { return impl_->state.roster.num_running(); }
int32_t Scheduler::num_waiting() const { return impl_->state.roster.num_waiting(); }

SchedulerStats Scheduler::stats() const {
  const Roster& roster = impl_->state.roster;
  SchedulerStats stats = impl_->state.stats;
  stats.num_running = roster.num_running();
  stats.num_waiting = roster.num_waiting();
  stats.num_fork_waiting = roster.forks.size();
  stats.num_preempted_now = roster.num_waiting() - roster.limits.num_queued_reqs();
  stats.num_queued_tokens = roster.limits.num_queued_tokens();
  stats.prefill_tokens_per_s = roster.limits.prefill_tokens_per_s();
  return stats;
}

std::span<const AdapterUse> Scheduler::adapter_uses() const {
  return impl_->state.roster.adapters.uses();
}

const EncoderCacheStats& Scheduler::encoder_stats() const {
  return impl_->state.roster.media.cache().stats();
}

const SchedulerConfig& Scheduler::config() const { return impl_->state.config; }
KvManager& Scheduler::kv() { return impl_->state.kv; }
Status Scheduler::check_integrity() const { return check_scheduler(impl_->state); }

}  // namespace quire
