// Settings of the scheduler. Names and defaults follow `vllm serve` where it has the same setting.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "draft/draft_planner.h"
#include "sched/step_time.h"

namespace quire {

enum class SchedulingPolicy : uint8_t {
  kFcfs,      // arrival order
  kPriority,  // Request::priority, lower first, then arrival
  kSjf,       // fewest remaining tokens first; waiting makes a request count as shorter
};

// kStaticBatches is what servers did before continuous batching, kept for comparison: a batch is
// admitted when nothing runs, and no request joins until all of it has finished.
enum class BatchingMode : uint8_t { kContinuous, kStaticBatches };

struct SchedulerConfig {
  int32_t max_num_batched_tokens = 2048;  // per step
  int32_t max_num_seqs = 256;             // running at once, without num_express_seqs()
  int32_t max_model_len = 4096;           // prompt and output of one request, tokens
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  BatchingMode batching = BatchingMode::kContinuous;

  // The most drafts of a request in one step, if there is a drafter; 0: none.
  int32_t num_speculative_tokens = 0;
  DraftPlannerOptions draft_planner;

  // Whether a request may be granted its next tokens while a step of it is under way. The executor
  // then feeds what that step samples into the next one by itself (core/executor.h).
  bool async_scheduling = false;

  // Steps under way at once that share no request except for chunks of one prompt; each takes its
  // share of the requests. May be above 1 only without async_scheduling.
  int32_t pipeline_depth = 1;

  bool enable_chunked_prefill = true;        // off: a prompt is computed whole, in one step
  int32_t long_prefill_token_threshold = 0;  // most tokens of one request in one step; 0: no limit

  // Bounds the prompt tokens of steps in which a request decodes. Has no effect without chunked
  // prefill or with static batches.
  StepTimeLimit step_time;

  // Admit a request only if its whole known sequence fits in free blocks, apart from those that
  // admitted prompts still need.
  bool reserve_full_isl = true;
  double watermark = 0.01;  // share of blocks kept free when admitting beside running requests
  // After this many preemptions a request is readmitted only if there is room for its longest
  // output, and is never preempted again. 0: this holds for every request from the start.
  int32_t max_preemptions = 2;

  // How many requests past a head that does not fit are tried instead of it; 0: strict order.
  int32_t max_skip_ahead = 16;
  // The most admissions that may pass a head that does not fit before order becomes strict.
  int32_t max_overtakes = 64;
  // A request is short if its prompt and longest output have together at most this many tokens.
  // Short requests need not wait for long ones to end, since num_express_seqs() places are for them
  // alone. 0: there are no such places.
  int32_t express_tokens = 0;
  double sjf_ageing_tokens_per_s = 100.0;  // a second of waiting counts as this many tokens less
  double priority_ageing_s = 0.0;          // waiting this long gains one priority level; 0: never

  // Embeddings of media items that are kept; 0: requests have only text.
  int32_t encoder_cache_tokens = 0;
  // The most embeddings that one step computes, except for a single larger item; 0:
  // encoder_cache_tokens. It is 0 for models whose prompts need several items at once.
  int32_t encoder_step_tokens = 0;
  bool media_is_bidirectional = false;  // MediaInfo::is_bidirectional

  // The most different adapters among running requests; 0: no limit. Requests that wait for one of
  // them to end are passed by others, but by at most max_overtakes requests with adapters.
  int32_t max_loras = 0;

  int32_t max_num_queued_reqs = 4096;  // never-admitted requests that may wait
  int64_t max_num_queued_tokens =
      1 << 22;  // their uncached prompt tokens; raised to max_model_len when smaller

  // Returns the most tokens of one request that the steps under way compute.
  int32_t max_uncommitted_tokens() const;

  // Returns the number of places beside max_num_seqs for short requests alone: a sixteenth of
  // max_num_seqs, as far as a step has a token for each.
  int32_t num_express_seqs() const;
  // Returns the most requests in one step.
  int32_t max_running() const { return max_num_seqs + num_express_seqs(); }

  // Whether steps are bounded by time.
  bool bounds_step_time() const {
    return step_time.bounds() && enable_chunked_prefill && batching == BatchingMode::kContinuous;
  }

  // Returns an error that names the first field out of bounds, by its flag, and what was expected.
  Status validate() const;
};

}  // namespace quire
