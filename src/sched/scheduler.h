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
// There is no prefill and no decode: a request has tokens and computed tokens, and a step lets the
// second catch up with the first (law L2). Pure bookkeeping (L1): ids and counts, time comes as an
// argument, plans are a function of the calls made before (S-8). Normative contract:
// sched/README.md; invariants S-1 .. S-9: docs/invariants.md. One thread owns Scheduler and its
// KvManager.
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

// This is what update() did for one request.
struct RequestUpdate {
  RequestId id;
  // The tokens that were appended, in order; they point into the StepResult. They are fewer than
  // were sampled when the request stopped.
  std::span<const TokenId> new_token_ids;
  // The executor's entry: logprobs[i] belongs to new_token_ids[i]; prompt_logprobs. It is null when
  // the executor sent none.
  const RequestStepResult* result = nullptr;
  int32_t num_drafts = 0;                 // that the step verified
  int32_t num_accepted_drafts = 0;        // of new_token_ids
  bool drafts_from_prediction = false;    // the client's
  std::optional<RequestStatus> finished;  // set when the request has ended with this update
  std::optional<TokenId> stop_token_id;   // which of stop_token_ids; not set for EOS
  Status status;                          // why, when finished is kFinishedError
};

struct SchedulerStats {
  int32_t num_running = 0;
  int32_t num_waiting = 0;        // preempted and fork-waiting ones included
  int32_t num_preempted_now = 0;  // of num_waiting
  int32_t num_fork_waiting = 0;   // of num_waiting: until their leader has computed the prompt
  int64_t num_queued_tokens = 0;  // uncached prompt tokens of never-admitted requests
  uint64_t num_steps = 0;         // non-empty plans
  int64_t num_scheduled_tokens = 0;
  int64_t num_prompt_tokens_computed = 0;
  int64_t num_generated_tokens = 0;
  int64_t num_recomputed_tokens = 0;  // computed again after a preemption
  int64_t num_preemptions = 0;
  int64_t num_refused = 0;      // add() refusals because of queue limits
  int64_t num_skip_aheads = 0;  // admissions past a head that did not fit
  int64_t num_head_waits = 0;   // steps in which the head of the queue did not fit
  int64_t num_forks = 0;
  // These count tokens of the prefix cache, at a request's first admission.
  int64_t prefix_queries = 0;
  int64_t prefix_hits = 0;
  // Sums over updates of token slots in referenced blocks and of those without a computed token.
  int64_t reserved_slot_steps = 0;
  int64_t unused_slot_steps = 0;
  double prefill_tokens_per_s = 0.0;  // recent

  double wasted_kv_share() const {
    return reserved_slot_steps == 0
               ? 0.0
               : static_cast<double>(unused_slot_steps) / static_cast<double>(reserved_slot_steps);
  }
};

// The beam `id` goes on with the text of `parent`, which may be itself, and `token_id` behind it.
struct BeamMove {
  RequestId id;
  RequestId parent;
  TokenId token_id = 0;
};

// Says what each running request decodes in run_decodes().
class DecodeTokens {
 public:
  virtual ~DecodeTokens() = default;
  // Returns the tokens of `id` at positions position, position + 1, … .
  virtual void next_tokens(RequestId id, int32_t position, std::span<TokenId> out) = 0;
};

class Scheduler {
 public:
  // `config` has been validated; `kv` outlives the scheduler, which is its only user. So does
  // `drafter`, which may be null: then there are no drafts.
  Scheduler(const SchedulerConfig& config, KvManager& kv, Drafter* drafter = nullptr);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues a request whose token_ids are its prompt (num_prompt_tokens is set from it). arrival_us
  // is the caller's.
  //   kInvalidArgument    empty prompt, prompt beyond max_model_len, no params, or an id in use
  //   kTooLarge           its prompt and longest output never fit in the KV blocks
  //   kResourceExhausted  a queue limit is reached; see retry_after_s()
  Status add(Request request, int64_t now_us);
  // Whether add() of `num_requests` requests with `num_tokens` prompt tokens in all would pass the
  // queue limits (for fork groups, which are taken whole or not at all).
  Status check_queue_room(int32_t num_requests, int64_t num_tokens) const;
  // Seconds after which a refused client may try again: queued tokens / recent prefill rate, in [1,
  // 600].
  int64_t retry_after_s() const;

  // Beams of one search are requests of kind kBeam with the same prompt: the first is added by
  // itself, the others with its id in fork_of, before the next schedule(). They are admitted,
  // preempted and finished together. Only the first computes the prompt. When every beam that has a
  // text has computed all of it, move_beams() says with which tokens they go on; one beam of those
  // with the same parent is the parent itself. Takes effect with the next schedule().
  void move_beams(std::span<const BeamMove> moves);

  // Returns the next step, valid until the next call; the caller may add token masks. Requests of an
  // earlier plan whose update() has not come yet are left alone. An empty plan carries nothing:
  // `dropped` waits for the next plan that is not empty.
  StepPlan& schedule(int64_t now_us);
  // Takes a step's outcome: appends tokens, stops and finishes requests, frees their blocks.
  // Entries for requests that were finished or preempted meanwhile are ignored. The result is valid
  // until the next call of update() and as long as `result`.
  std::span<const RequestUpdate> update(const StepResult& result, int64_t now_us);

  // Runs of decode steps, for a simulator: when every running request has one token to compute and
  // nobody can join or leave, many rounds of schedule() and update() come to the same as one
  // run_decodes(). The most such rounds from here on, a lower bound; 0: none, or a plan is under
  // way. With num_under_way = 1: from the end of the step on that is under way, which every running
  // request must be in. Deadlines are the caller's to watch. O(running).
  int32_t max_decode_run(int32_t num_under_way = 0) const;
  // Does what rounds i = 0, 1, … would, in which schedule() is called at begin_us for i = 0, else
  // at end_us[i - 1], and update() at end_us[i], each running request getting the next of its
  // tokens. 1 <= end_us.size() <= max_decode_run(). The rounds' plans are lost: no executor may
  // need them.
  void run_decodes(int64_t begin_us, std::span<const int64_t> end_us, DecodeTokens& tokens);

  // Ends a request now (abort, stop string, error), wherever it is, and frees everything it holds.
  // `status` is a finished one. False when there is no such unfinished request. When a whole step
  // has failed, call it for every request of that plan; nothing of the step is kept.
  bool finish(RequestId id, RequestStatus status);
  // Holds an unfinished request back, or lets it go on. While it is held it keeps what it has, and
  // steps compute all of its known tokens but the last: nothing is sampled for it.
  void hold(RequestId id, bool held);
  // Finishes (kFinishedError) all requests whose deadline_us <= now_us; their ids, by deadline. The
  // result is valid until the next call of expire().
  std::span<const RequestId> expire(int64_t now_us);

  // Returns the request, or null. A finished one is found, and valid, until the next schedule().
  const Request* find(RequestId id) const;
  bool has_unfinished() const;
  int32_t num_running() const;
  int32_t num_waiting() const;
  SchedulerStats stats() const;
  // Returns the adapters of unfinished requests, valid until the next call that changes anything.
  std::span<const AdapterUse> adapter_uses() const;
  const EncoderCacheStats& encoder_stats() const;
  const SchedulerConfig& config() const;
  // Replaces step_time.predicted of the configuration; what was learned about the machine with the
  // old table is forgotten. Between update() and schedule().
  void set_step_times(const StepTimeTable& table);
  // Replaces draft_planner.row_times of the configuration. It may be called between update() and
  // schedule().
  void set_row_times(const RowTimes& times);
  KvManager& kv();

  // Checks S-1 .. S-3, S-9 and KvManager::check_integrity(), which takes O(everything). Debug
  // builds call it at every step.
  Status check_integrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
