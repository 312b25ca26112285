// Scheduler: which request computes how many tokens in the next step.
//
//   scheduler.add(request, now);                            // or a refusal
//   while (scheduler.has_unfinished()) {
//     const StepPlan& plan = scheduler.schedule(now);
//     if (plan.empty()) …wait for requests…
//     StepResult result = executor.execute(plan);
//     for (const RequestUpdate& u : scheduler.update(result, now)) …
//   }
//
// There is no prefill phase and no decode phase: a request has tokens and computed tokens, and a
// step lets the second catch up with the first (law L2). The scheduler is pure bookkeeping (L1): it
// has ids and counts, gets the time as an argument, and its plans are a function of the calls made
// before (S-8). The normative contract is sched/README.md; invariants S-1 .. S-9 are in
// docs/invariants.md. One thread owns the Scheduler and its KvManager.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/request.h"
#include "core/step.h"
#include "draft/drafter.h"
#include "kv/kv_manager.h"
#include "sched/adapters/adapter_uses.h"
#include "sched/media/encoder_cache.h"
#include "sched/scheduler_config.h"

namespace quire {

// The effect of update() on one request.
struct RequestUpdate {
  RequestId id;
  // The appended tokens, in order, as a part of the StepResult. If the request stopped, they are
  // fewer than were sampled.
  std::span<const TokenId> new_token_ids;
  // The executor's entry for the request, in which logprobs[i] belongs to new_token_ids[i]. Null if
  // the executor sent none.
  const RequestStepResult* result = nullptr;
  int32_t num_drafts = 0;                 // drafts that the step verified
  int32_t num_accepted_drafts = 0;        // drafts among new_token_ids
  bool drafts_from_prediction = false;    // the drafts came from the client's prediction
  std::optional<RequestStatus> finished;  // set when the request has ended with this update
  // The one of stop_token_ids that ended it; not set for EOS.
  std::optional<TokenId> stop_token_id;
  Status status;  // why, when finished is kFinishedError
};

struct SchedulerStats {
  int32_t num_running = 0;
  int32_t num_waiting = 0;        // preempted and fork-waiting ones included
  int32_t num_preempted_now = 0;  // of num_waiting
  int32_t num_fork_waiting = 0;   // of num_waiting: their leader has not yet computed the prompt
  int64_t num_queued_tokens = 0;  // uncached prompt tokens of never-admitted requests
  uint64_t num_steps = 0;         // plans that were not empty
  int64_t num_scheduled_tokens = 0;
  int64_t num_prompt_tokens_computed = 0;
  int64_t num_generated_tokens = 0;
  int64_t num_recomputed_tokens = 0;  // computed again after a preemption
  int64_t num_preemptions = 0;
  int64_t num_refused = 0;      // refusals by add() because of queue limits
  int64_t num_skip_aheads = 0;  // admissions past a head that did not fit
  int64_t num_head_waits = 0;   // steps in which the head of the queue did not fit
  int64_t num_forks = 0;
  // Tokens looked up and found in the prefix cache at requests' first admission.
  int64_t prefix_queries = 0;
  int64_t prefix_hits = 0;
  // Sums over updates: token slots in referenced blocks, and those of them without a computed
  // token.
  int64_t reserved_slot_steps = 0;
  int64_t unused_slot_steps = 0;
  double prefill_tokens_per_s = 0.0;  // of recent steps

  double wasted_kv_share() const {
    return reserved_slot_steps == 0
               ? 0.0
               : static_cast<double>(unused_slot_steps) / static_cast<double>(reserved_slot_steps);
  }
};

// Says that beam `id` goes on with the text of `parent`, which may be itself, followed by
// `token_id`.
struct BeamMove {
  RequestId id;
  RequestId parent;
  TokenId token_id = 0;
};

// Gives the tokens that running requests decode in run_decodes().
class DecodeTokens {
 public:
  virtual ~DecodeTokens() = default;
  // Writes the tokens of `id` at positions position, position + 1, … to `out`.
  virtual void next_tokens(RequestId id, int32_t position, std::span<TokenId> out) = 0;
};

class Scheduler {
 public:
  // `config` has been validated. `kv` outlives the scheduler, which is its only user. `drafter`
  // outlives it too, or is null: then there are no drafts.
  Scheduler(const SchedulerConfig& config, KvManager& kv, Drafter* drafter = nullptr);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues a request whose token_ids are its prompt (num_prompt_tokens is set from it). The caller
  // sets arrival_us. Errors:
  //   kInvalidArgument    empty prompt, prompt beyond max_model_len, no params, or an id in use
  //   kTooLarge           its prompt and longest output never fit in the KV blocks
  //   kResourceExhausted  a queue limit is reached; see retry_after_s()
  Status add(Request request, int64_t now_us);
  // Returns an error if adding `num_requests` requests with `num_tokens` prompt tokens in all would
  // exceed the queue limits. It is for fork groups, which are taken whole or not at all.
  Status check_queue_room(int32_t num_requests, int64_t num_tokens) const;
  // Returns the seconds after which a refused client may try again: queued tokens / recent prefill
  // rate, in [1, 600].
  int64_t retry_after_s() const;

  // Says how the beams of searches go on, from the next schedule() on. The beams of a search are
  // requests of kind kBeam with the same prompt: the first is added by itself, the others with its
  // id in fork_of, before the next schedule(). They are admitted, preempted and finished together,
  // and only the first computes the prompt. Call this when every beam that has a text has computed
  // all of it. One of the beams with the same parent is the parent itself.
  void move_beams(std::span<const BeamMove> moves);

  // Returns the next step, valid until the next call; the caller may add token masks. Requests of
  // an earlier plan whose update() has not come yet are not planned. An empty plan carries nothing:
  // its `dropped` is in the next plan that is not empty.
  StepPlan& schedule(int64_t now_us);
  // Takes the outcome of a step: appends tokens, stops and finishes requests, frees their blocks.
  // Ignores results of requests that were finished or preempted meanwhile. The returned updates are
  // valid until the next call of update() and as long as `result`.
  std::span<const RequestUpdate> update(const StepResult& result, int64_t now_us);

  // For a simulator: while every running request has one token to compute and nobody can join or
  // leave, one run_decodes() does the same as many rounds of schedule() and update(). Returns a
  // lower bound of the number of such rounds from here on; 0: there are none, or a plan is under
  // way. With num_under_way = 1 they begin at the end of the step under way, in which every running
  // request must take part. The caller watches deadlines. O(running).
  int32_t max_decode_run(int32_t num_under_way = 0) const;
  // Does what the rounds i = 0, 1, … would do in which schedule() is called at begin_us for i = 0,
  // else at end_us[i - 1], and update() at end_us[i], and each running request gets the next of its
  // tokens. Precondition: 1 <= end_us.size() <= max_decode_run(). The plans of the rounds are lost,
  // so no executor may need them.
  void run_decodes(int64_t begin_us, std::span<const int64_t> end_us, DecodeTokens& tokens);

  // Ends a request at once (abort, stop string, error), whatever its state, and frees everything it
  // holds. `status` is a finished one. Returns false if there is no such unfinished request. If a
  // whole step has failed, call it for every request of that plan; nothing of the step is kept.
  bool finish(RequestId id, RequestStatus status);
  // Holds an unfinished request, or lets it go on. While held, it keeps its blocks, and steps
  // compute all of its known tokens but the last, so no token is sampled for it.
  void hold(RequestId id, bool held);
  // Finishes (kFinishedError) all requests whose deadline_us <= now_us and returns their ids, by
  // deadline. The result is valid until the next call of expire().
  std::span<const RequestId> expire(int64_t now_us);

  // Returns the request, or null. A finished request is still found, and valid, until the next
  // schedule().
  const Request* find(RequestId id) const;
  bool has_unfinished() const;
  int32_t num_running() const;
  int32_t num_waiting() const;
  SchedulerStats stats() const;
  // Returns the adapters of unfinished requests; valid until the next call that changes anything.
  std::span<const AdapterUse> adapter_uses() const;
  const EncoderCacheStats& encoder_stats() const;
  const SchedulerConfig& config() const;
  // Replaces step_time.predicted of the configuration; what was learned about the machine with the
  // old table is forgotten. Call it between update() and schedule().
  void set_step_times(const StepTimeTable& table);
  // Replaces draft_planner.row_times of the configuration. Call it between update() and schedule().
  void set_row_times(const RowTimes& times);
  KvManager& kv();

  // Checks S-1 .. S-3, S-9 and KvManager::check_integrity(), in time linear in the whole state.
  // Debug builds call it at every step.
  Status check_integrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
