#include "sched/steps/decode_runs.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "sched/stop_check.h"

namespace quire {

// Returns the number of steps before the first that may end the request; 0: it is not just
// decoding.
int64_t DecodeRuns::run_of(const Entry& entry, int32_t num_under_way) const {
  const SamplingParams& params = *entry.request.params;
  const int32_t num_outputs = entry.request.num_output_tokens() + entry.num_open_tokens();
  if (entry.num_flights != num_under_way || entry.held || !entry.known_to_executor ||
      entry.num_new_tokens() != 1 || num_outputs < 1 || stops_on_tokens(params)) {
    return 0;
  }
  return std::min(params.max_tokens - num_outputs,
                  state_.config.max_model_len - entry.num_tokens()) -
         1;
}

// Returns the number of steps, up to about `wanted`, for which there are blocks without preemption:
// each request takes one block of every group when its last one is full. Promised blocks do not
// count as free.
int64_t DecodeRuns::num_steps_with_blocks(int64_t wanted) {
  const KvManager& kv = state_.kv;
  const BlockTables& tables = kv.tables();
  const int64_t block_size = kv.block_size();
  const int64_t num_free =
      (kv.stores().num_free() - budget_.promises.sum(/*hard_only=*/true))[KvPool::kAttention];
  const int64_t num_turns = std::max<int64_t>(0, num_free) / tables.sizing().num_groups();
  const std::vector<Entry*>& running = state_.roster.running();
  const int64_t whole_rounds = num_turns / std::ssize(running);
  if (whole_rounds * block_size >= wanted || tables.sizing().blocks_leave())
    return whole_rounds * block_size;
  first_turns_.clear();
  for (const Entry* entry : running) {
    if (entry->hard) continue;  // its blocks are among those promised to it
    first_turns_.push_back((block_size - entry->next_position() % block_size) % block_size);
  }
  const int64_t num_takers = std::ssize(first_turns_);
  if (num_takers == 0) return wanted;
  const auto left = first_turns_.begin() + num_turns % num_takers;
  std::nth_element(first_turns_.begin(), left, first_turns_.end());
  return num_turns / num_takers * block_size + *left;
}

int32_t DecodeRuns::max_run(int32_t num_under_way) {
  const SchedulerConfig& config = state_.config;
  const KvManager& kv = state_.kv;
  const Roster& roster = state_.roster;
  const int32_t num_running = roster.num_running();
  if (num_running == 0 || state_.drafter != nullptr || roster.forks.size() > 0 ||
      num_running > config.max_num_batched_tokens || kv.spec().uses(KvPool::kState) ||
      config.pipeline_depth > 1) {
    return 0;
  }
  // A step planned ahead looks for blocks and at waiting requests before the run has ended.
  const int32_t num_ahead = config.async_scheduling ? 1 : 0;
  int64_t num_steps = int64_t{admission_.num_idle_rounds()} - num_ahead;
  for (const Entry* entry : roster.running()) {
    if (num_steps <= 0) return 0;
    num_steps = std::min(num_steps, run_of(*entry, num_under_way));
  }
  num_steps = std::min(num_steps, num_steps_with_blocks(num_steps + num_ahead) - num_ahead);
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

// Allocates blocks as schedule() would do in this step.
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

// Waiting requests find no place in the first step, so the steps after it need not look at them.
void DecodeRuns::pass_those_who_wait(int32_t num_steps) {
  const Roster& roster = state_.roster;
  if (roster.waiting.empty() || roster.num_running() >= state_.config.max_num_batched_tokens ||
      state_.config.batching == BatchingMode::kStaticBatches) {
    return;
  }
  budget_.promises.all = budget_.promises.sum(/*hard_only=*/true);
  if (preemptions_.pause_admission()) return;
  if (roster.num_running() < state_.config.max_running()) state_.stats.num_head_waits += num_steps;
}

// Registers full blocks as update() would do.
void DecodeRuns::fill(size_t step, std::span<Entry* const> filling) {
  BlockTables& tables = state_.kv.tables();
  const auto offset = static_cast<int32_t>(step);
  for (Entry* entry : filling) {
    const Request& request = entry->request;
    tables.commit(entry->sequence, request.token_ids, request.num_computed_tokens + offset + 1);
  }
}

// Adds what update() adds to its sums over num_steps steps in which each running request computes a
// token and nothing else changes. In the first step the KV manager does not yet know of
// num_uncommitted computed tokens.
void DecodeRuns::add_slot_stats(int64_t num_uncommitted, int64_t num_steps) {
  const KvStats kv = state_.kv.stats();
  const int64_t num_groups = state_.kv.tables().sizing().num_groups();
  const int64_t num_later = num_steps * (num_steps - 1) / 2 * state_.roster.num_running();
  state_.stats.reserved_slot_steps += kv.num_reserved_slots * num_steps;
  state_.stats.unused_slot_steps +=
      kv.num_unused_slots * num_steps - (num_uncommitted * num_steps + num_later) * num_groups;
}

// Updates the statistics that depend on the times of steps.
void DecodeRuns::note_times(int64_t begin_us, std::span<const int64_t> end_us) {
  const size_t num_steps = end_us.size();
  state_.roster.limits.on_prefill(0, end_us.back() - begin_us);
  state_.now_us = num_steps > 1 ? end_us[num_steps - 2] : begin_us;
  state_.kv.begin_step(state_.now_us);
  if (!state_.config.bounds_step_time()) return;
  const int32_t num_running = state_.roster.num_running();
  int64_t context = 0;
  for (const Entry* entry : state_.roster.running()) context += entry->next_position() + 1;
  for (size_t step = 0; step < num_steps; ++step) {
    state_.now_us = step == 0 ? begin_us : end_us[step - 1];
    const uint64_t step_id = state_.stats.num_steps + step + 1;
    budget_.time.note_decodes(step_id, num_running, context);
    budget_.time.note_done(step_id, end_us[step]);
    context += num_running;
  }
}

void DecodeRuns::end_run(int32_t num_steps) {
  KvManager& kv = state_.kv;
  const int64_t num_tokens = int64_t{num_steps} * state_.roster.num_running();
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

// Returns the first step after `step` at which a request takes or fills a block.
size_t DecodeRuns::next_turn(size_t step, size_t next_growing, size_t next_filling) const {
  if (every_step_) return step + 1;
  size_t next = std::numeric_limits<size_t>::max();
  if (!growing_.empty()) next = std::min(next, growing_[next_growing].step);
  if (!filling_.empty()) next = std::min(next, filling_[next_filling].step);
  return std::max(next, step + 1);
}

void DecodeRuns::run(int64_t begin_us, std::span<const int64_t> end_us, DecodeTokens& tokens) {
  const size_t num_steps = end_us.size();
  QUIRE_CHECK(num_steps >= 1, "a run of no decode steps");
  state_.roster.recycle_finished();
  plan_turns(num_steps);
  append_tokens(num_steps, tokens);
  const std::vector<Entry*>& running = state_.roster.running();
  const auto block_size = static_cast<size_t>(state_.kv.block_size());
  // With windows, blocks may become free at any step, so each request has a turn at every step.
  const bool blocks_leave = state_.kv.tables().sizing().blocks_leave();
  every_step_ = blocks_leave;
  size_t next_growing = 0;
  size_t next_filling = 0;
  int64_t num_uncommitted = 0;
  for (size_t step = 0; step < num_steps;) {
    state_.now_us = step == 0 ? begin_us : end_us[step - 1];
    state_.kv.begin_step(state_.now_us);
    num_uncommitted += std::ssize(running);
    grow(step, blocks_leave ? running : take_turns(growing_, next_growing, step));
    if (step == 0) pass_those_who_wait(static_cast<int32_t>(num_steps));
    const std::span<Entry* const> filling =
        blocks_leave ? running : take_turns(filling_, next_filling, step);
    fill(step, filling);
    num_uncommitted -= std::ssize(filling) *
                       static_cast<int64_t>(blocks_leave ? 1 : std::min(step + 1, block_size));
    const size_t next = std::min(next_turn(step, next_growing, next_filling), num_steps);
    const auto num_alike = static_cast<int64_t>(next - step);
    add_slot_stats(num_uncommitted, num_alike);
    num_uncommitted += (num_alike - 1) * std::ssize(running);
    step = next;
  }
  note_times(begin_us, end_us);
  end_run(static_cast<int32_t>(num_steps));
}

}  // namespace quire
