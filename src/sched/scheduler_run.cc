// Scheduler: many steps of decodes at once. Between two changes of the batch a step only moves each
// running request on by one token, takes a block for those that fill one and registers it; here
// each of these is done once per block instead of looked for at every step.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "sched/scheduler_impl.h"
#include "sched/stop_check.h"

namespace quire {

// Steps before the one that may end it; 0: it has something else to do.
int32_t Scheduler::Impl::decode_run_of(const Entry& entry) const {
  const Request& request = entry.request;
  const SamplingParams& params = *request.params;
  if (entry.in_flight() || entry.held || !entry.known_to_executor ||
      request.num_new_tokens() != 1 || request.num_output_tokens() < 1 || stops_on_tokens(params)) {
    return 0;
  }
  return std::min(params.max_tokens - request.num_output_tokens(),
                  config_.max_model_len - request.num_tokens()) -
         1;
}

int32_t Scheduler::Impl::max_decode_run() const {
  const auto num_running = static_cast<int32_t>(running_.size());
  const bool queue_rests = waiting_.empty() || (num_running >= config_.max_running() &&
                                                config_.batching == BatchingMode::kContinuous);
  if (num_running == 0 || drafter_ != nullptr || !queue_rests || num_fork_waiting_ > 0 ||
      num_hard_running_ > 0 || num_running > config_.max_num_batched_tokens ||
      kv_.spec().uses(KvPool::kState)) {
    return 0;
  }
  // Each request takes at most one block per group for block_size tokens: nobody is preempted.
  const int64_t rounds =
      kv_.num_free_blocks()[KvPool::kAttention] / (int64_t{num_running} * kv_.num_groups());
  int64_t num_steps =
      std::min<int64_t>(rounds * kv_.block_size(), std::numeric_limits<int32_t>::max());
  for (size_t i = 0; i < running_.size() && num_steps > 0; ++i) {
    num_steps = std::min<int64_t>(num_steps, decode_run_of(*running_[i]));
  }
  return static_cast<int32_t>(std::max<int64_t>(num_steps, 0));
}

void Scheduler::Impl::sort_by_phase() {
  phases_.resize(static_cast<size_t>(kv_.block_size()));
  for (std::vector<Entry*>& phase : phases_) phase.clear();
  for (Entry* entry : running_) {
    phases_[static_cast<size_t>(entry->request.num_computed_tokens % kv_.block_size())].push_back(
        entry);
  }
}

// What schedule() and update() would do to blocks in this step: `growing` requests write the first
// slot of a block, `filling` ones the last.
void Scheduler::Impl::run_step(size_t step, std::span<Entry* const> growing,
                               std::span<Entry* const> filling) {
  const auto offset = static_cast<int32_t>(step);
  for (Entry* entry : growing) {
    const Request& request = entry->request;
    const bool fits = kv_.tables().allocate(
        entry->sequence, {.tokens = request.token_ids,
                          .num_computed_tokens = request.num_computed_tokens + offset,
                          .num_new_tokens = 1});
    QUIRE_CHECK(fits, "request {}: no block in a run of decodes", request.id.value);
  }
  if (step == 0 && !waiting_.empty() && num_running() < config_.max_num_batched_tokens) {
    owed_ = {};
    admission_paused();
  }
  for (Entry* entry : filling) {
    const Request& request = entry->request;
    kv_.tables().commit(entry->sequence, request.token_ids,
                        request.num_computed_tokens + offset + 1);
  }
}

// update()'s sums over steps; the KV manager has not heard yet of num_uncommitted computed tokens.
void Scheduler::Impl::add_slot_stats(int64_t num_uncommitted) {
  const KvStats kv = kv_.stats();
  stats_.reserved_slot_steps += kv.num_reserved_slots;
  stats_.unused_slot_steps += kv.num_unused_slots - num_uncommitted * kv_.num_groups();
}

void Scheduler::Impl::end_run(int32_t num_steps) {
  const int64_t num_tokens = int64_t{num_steps} * num_running();
  stats_.num_scheduled_tokens += num_tokens;
  stats_.num_generated_tokens += num_tokens;
  for (Entry* entry : running_) {
    Request& request = entry->request;
    request.num_computed_tokens += num_steps;
    kv_.tables().commit(entry->sequence, request.token_ids, request.num_computed_tokens);
    entry->num_tokens_seen = std::max(entry->num_tokens_seen, request.num_computed_tokens);
    unsent_.clear();
    kv_.tables().append_updates(entry->sequence, 0, false, unsent_);
  }
}

void Scheduler::Impl::run_decodes(int64_t begin_us, std::span<const int64_t> end_us,
                                  DecodeTokens& tokens) {
  const auto num_steps = static_cast<int32_t>(end_us.size());
  QUIRE_CHECK(num_steps >= 1 && num_steps <= max_decode_run(), "a run of {} of {} decode steps",
              num_steps, max_decode_run());
  recycle_finished();
  sort_by_phase();
  for (Entry* entry : running_) {
    Request& request = entry->request;
    const int32_t position = request.num_tokens();
    request.token_ids.resize(static_cast<size_t>(position) + end_us.size());
    tokens.next_tokens(request.id, position,
                       std::span(request.token_ids).subspan(static_cast<size_t>(position)));
  }
  const int64_t batch = num_running();
  const auto block_size = static_cast<size_t>(kv_.block_size());
  int64_t num_uncommitted = 0;
  int64_t context = 0;
  for (const Entry* entry : running_) context += entry->next_position() + 1;
  for (size_t step = 0; step < end_us.size(); ++step) {
    now_us_ = step == 0 ? begin_us : end_us[step - 1];
    kv_.begin_step(now_us_);
    if (config_.bounds_step_time()) {
      const uint64_t step_id = stats_.num_steps + step + 1;
      step_times_.on_planned(step_id, now_us_,
                             {.decode_us = step_times_.decode_step_us(num_running(), context)});
      step_times_.on_done(step_id, end_us[step]);
      context += batch;
    }
    num_uncommitted += batch;
    if (kv_.tables().blocks_leave()) {  // blocks leave windows at any step: one by one
      run_step(step, running_, running_);
      num_uncommitted = 0;
    } else {
      const size_t growing = (block_size - step % block_size) % block_size;
      const size_t filling = (growing + block_size - 1) % block_size;
      run_step(step, phases_[growing], phases_[filling]);
      num_uncommitted -= static_cast<int64_t>(phases_[filling].size()) *
                         static_cast<int64_t>(std::min(step + 1, block_size));
    }
    add_slot_stats(num_uncommitted);
    limits_.on_prefill(0, end_us[step] - now_us_);
  }
  round_ += static_cast<uint64_t>(num_steps);
  stats_.num_steps += static_cast<uint64_t>(num_steps);
  end_run(num_steps);
  dropped_.clear();
  kv_.take_host_copies(stats_.num_steps, unsent_host_copies_);
  kv_.on_step_done(stats_.num_steps);
#ifdef QUIRE_DEBUG_CHECKS
  const Status integrity = check_integrity();
  QUIRE_DCHECK(integrity.ok(), "{}", integrity.message());
#endif
}

}  // namespace quire
