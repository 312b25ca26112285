#include "sched/steps/decode_runs.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "sched/stop_check.h"

namespace quire {

// Returns the steps before the first that may end the request; 0: it has something else to do.
int32_t DecodeRuns::run_of(const Entry& entry) const {
  const Request& request = entry.request;
  const SamplingParams& params = *request.params;
  if (entry.in_flight() || entry.held || !entry.known_to_executor ||
      request.num_new_tokens() != 1 || request.num_output_tokens() < 1 || stops_on_tokens(params)) {
    return 0;
  }
  return std::min(params.max_tokens - request.num_output_tokens(),
                  state_.config.max_model_len - request.num_tokens()) -
         1;
}

int32_t DecodeRuns::max_run() const {
  const SchedulerConfig& config = state_.config;
  const KvManager& kv = state_.kv;
  const Roster& roster = state_.roster;
  const int32_t num_running = roster.num_running();
  const bool queue_rests = roster.waiting.empty() || (num_running >= config.max_running() &&
                                                      config.batching == BatchingMode::kContinuous);
  if (num_running == 0 || state_.drafter != nullptr || !queue_rests || roster.forks.size() > 0 ||
      roster.num_hard_running() > 0 || num_running > config.max_num_batched_tokens ||
      kv.spec().uses(KvPool::kState) || config.pipeline_depth > 1) {
    return 0;
  }
  // Each request takes at most one block per group for block_size tokens: nobody is preempted.
  const int64_t rounds = kv.stores().num_free()[KvPool::kAttention] /
                         (int64_t{num_running} * kv.tables().sizing().num_groups());
  int64_t num_steps =
      std::min<int64_t>(rounds * kv.block_size(), std::numeric_limits<int32_t>::max());
  for (const Entry* entry : roster.running()) {
    if (num_steps <= 0) break;
    num_steps = std::min<int64_t>(num_steps, run_of(*entry));
  }
  return static_cast<int32_t>(std::max<int64_t>(num_steps, 0));
}

void DecodeRuns::plan_turns(size_t num_steps) {
  const auto block_size = static_cast<size_t>(state_.kv.block_size());
  growing_.clear();
  filling_.clear();
  for (Entry* entry : state_.roster.running()) {
    const size_t used = static_cast<size_t>(entry->request.num_computed_tokens) % block_size;
    const size_t first = (block_size - used) % block_size;
    const size_t last = block_size - 1 - used;
    if (first < num_steps) growing_.push_back({.step = first, .entry = entry});
    if (last < num_steps) filling_.push_back({.step = last, .entry = entry});
  }
  std::ranges::stable_sort(growing_, {}, &Turn::step);
  std::ranges::stable_sort(filling_, {}, &Turn::step);
}

std::span<Entry* const> DecodeRuns::take_turns(std::vector<Turn>& turns, size_t& next,
                                               size_t step) {
  turn_.clear();
  while (turn_.size() < turns.size() && turns[next].step == step) {
    turn_.push_back(turns[next].entry);
    turns[next].step += static_cast<size_t>(state_.kv.block_size());
    if (++next == turns.size()) next = 0;
  }
  return turn_;
}

void DecodeRuns::append_tokens(size_t num_steps, DecodeTokens& tokens) {
  for (Entry* entry : state_.roster.running()) {
    Request& request = entry->request;
    const int32_t position = request.num_tokens();
    request.token_ids.resize(static_cast<size_t>(position) + num_steps);
    tokens.next_tokens(request.id, position,
                       std::span(request.token_ids).subspan(static_cast<size_t>(position)));
  }
}

// What schedule() would do to blocks in this step.
void DecodeRuns::grow(size_t step, std::span<Entry* const> growing) {
  BlockTables& tables = state_.kv.tables();
  const auto offset = static_cast<int32_t>(step);
  for (Entry* entry : growing) {
    const Request& request = entry->request;
    const bool fits = tables.allocate(entry->sequence,
                                      {.tokens = request.token_ids,
                                       .num_computed_tokens = request.num_computed_tokens + offset,
                                       .num_new_tokens = 1});
    QUIRE_CHECK(fits, "request {}: no block in a run of decodes", request.id.value);
  }
}

// The first step finds no place for those that wait, which the steps behind it need not look at.
void DecodeRuns::pause_admission() {
  if (state_.roster.waiting.empty() ||
      state_.roster.num_running() >= state_.config.max_num_batched_tokens) {
    return;
  }
  budget_.promises.all = {};
  preemptions_.pause_admission();
}

// What update() would do to them.
void DecodeRuns::fill(size_t step, std::span<Entry* const> filling) {
  BlockTables& tables = state_.kv.tables();
  const auto offset = static_cast<int32_t>(step);
  for (Entry* entry : filling) {
    const Request& request = entry->request;
    tables.commit(entry->sequence, request.token_ids, request.num_computed_tokens + offset + 1);
  }
}

// update()'s sums over steps; the KV manager has not heard yet of num_uncommitted computed tokens.
void DecodeRuns::add_slot_stats(int64_t num_uncommitted) {
  const KvStats kv = state_.kv.stats();
  state_.stats.reserved_slot_steps += kv.num_reserved_slots;
  state_.stats.unused_slot_steps +=
      kv.num_unused_slots - num_uncommitted * state_.kv.tables().sizing().num_groups();
}

void DecodeRuns::end_run(int32_t num_steps) {
  KvManager& kv = state_.kv;
  const int64_t num_tokens = int64_t{num_steps} * state_.roster.num_running();
  state_.round += static_cast<uint64_t>(num_steps);
  state_.stats.num_steps += static_cast<uint64_t>(num_steps);
  state_.stats.num_scheduled_tokens += num_tokens;
  state_.stats.num_generated_tokens += num_tokens;
  for (Entry* entry : state_.roster.running()) {
    Request& request = entry->request;
    request.num_computed_tokens += num_steps;
    kv.tables().commit(entry->sequence, request.token_ids, request.num_computed_tokens);
    entry->num_tokens_seen = std::max(entry->num_tokens_seen, request.num_computed_tokens);
    unsent_.clear();
    kv.tables().append_updates(entry->sequence, 0, false, unsent_);
  }
  state_.roster.dropped.clear();
  kv.take_host_copies(state_.stats.num_steps, unsent_host_copies_);
  kv.on_step_done(state_.stats.num_steps);
}

void DecodeRuns::run(int64_t begin_us, std::span<const int64_t> end_us, DecodeTokens& tokens) {
  const auto num_steps = static_cast<int32_t>(end_us.size());
  QUIRE_CHECK(num_steps >= 1 && num_steps <= max_run(), "a run of {} of {} decode steps", num_steps,
              max_run());
  state_.roster.recycle_finished();
  plan_turns(end_us.size());
  append_tokens(end_us.size(), tokens);
  const std::vector<Entry*>& running = state_.roster.running();
  const auto block_size = static_cast<size_t>(state_.kv.block_size());
  const bool blocks_leave = state_.kv.tables().sizing().blocks_leave();
  size_t next_growing = 0;
  size_t next_filling = 0;
  int64_t num_uncommitted = 0;
  int64_t context = 0;
  for (const Entry* entry : running) context += entry->next_position() + 1;
  for (size_t step = 0; step < end_us.size(); ++step) {
    state_.now_us = step == 0 ? begin_us : end_us[step - 1];
    state_.kv.begin_step(state_.now_us);
    if (state_.config.bounds_step_time()) {
      const uint64_t step_id = state_.stats.num_steps + step + 1;
      budget_.time.note_decodes(step_id, state_.roster.num_running(), context);
      budget_.time.note_done(step_id, end_us[step]);
      context += std::ssize(running);
    }
    num_uncommitted += std::ssize(running);
    // Blocks leave windows at any step: there each request has its turn at each.
    grow(step, blocks_leave ? running : take_turns(growing_, next_growing, step));
    if (step == 0) pause_admission();
    const std::span<Entry* const> filling =
        blocks_leave ? running : take_turns(filling_, next_filling, step);
    fill(step, filling);
    num_uncommitted -= std::ssize(filling) *
                       static_cast<int64_t>(blocks_leave ? 1 : std::min(step + 1, block_size));
    add_slot_stats(num_uncommitted);
    state_.roster.limits.on_prefill(0, end_us[step] - state_.now_us);
  }
  end_run(num_steps);
}

}  // namespace quire
