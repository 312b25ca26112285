// A step: what the scheduler grants (StepPlan), and what came of it (StepResult).
//
// The plan is a diff. A request is sent whole once, in new_requests, when it is first scheduled
// (and again when it resumes after a preemption); afterwards only counts and new blocks travel. The
// executor keeps per-request state from new_requests until `dropped` names the id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/sampling_params.h"

namespace quire {

struct NewRequest {
  RequestId id;
  // All tokens known so far: the prompt, and after a preemption the output too.
  std::vector<TokenId> token_ids;
  int32_t num_prompt_tokens = 0;
  std::shared_ptr<const SamplingParams>
      params;  // shared with the frontend's and the engine's record of the request
};

// Entry `logical_index` of the request's block table in `group` is now `block`.
struct BlockTableUpdate {
  int32_t request_index = 0;  // into StepPlan::scheduled
  int32_t group = 0;
  int32_t logical_index = 0;
  BlockId block;
};

// Copy the KV of one block onto another before the forward pass (copy-on-write).
struct BlockCopy {
  BlockId source;
  BlockId destination;
};

// Copy the KV of one block to or from a block of host memory.
struct HostBlockCopy {
  BlockId block;
  BlockId host_block;
  bool to_host = false;
};

// Positions [num_computed_tokens, num_computed_tokens + num_scheduled_tokens) of the request run in
// this step. When that reaches the end of its known tokens, one token is sampled.
struct ScheduledRequest {
  RequestId id;
  int32_t num_computed_tokens = 0;
  int32_t num_scheduled_tokens = 0;  // >= 1
};

struct StepPlan {
  uint64_t step_id = 0;
  std::vector<RequestId>
      dropped;  // finished, aborted or preempted since the last plan; applies first
  std::vector<NewRequest> new_requests;
  std::vector<ScheduledRequest> scheduled;  // in batch order
  std::vector<BlockTableUpdate> block_updates;
  // Made first, in this order, whatever becomes of the step: later plans count on them.
  std::vector<HostBlockCopy> host_copies;
  std::vector<BlockCopy> block_copies;  // next, in any order
  int32_t total_num_scheduled_tokens = 0;

  bool empty() const { return scheduled.empty(); }
  void clear() {
    dropped.clear();
    new_requests.clear();
    scheduled.clear();
    block_updates.clear();
    host_copies.clear();
    block_copies.clear();
    total_num_scheduled_tokens = 0;
  }
};

// Natural logarithms of the raw model distribution (before penalties and temperature).
struct TokenLogprobs {
  TokenId token_id = 0;
  float logprob = 0.0f;
  int32_t rank = 0;                            // 1 = most likely
  std::vector<std::pair<TokenId, float>> top;  // most likely first; ties by smaller id
};

struct RequestStepResult {
  RequestId id;
  std::vector<TokenId> sampled_token_ids;  // empty while the prompt is still being computed
  std::vector<TokenLogprobs> logprobs;     // one per sampled token when asked for
  // Log-probabilities of prompt tokens at positions prompt_logprobs_begin, … ; position 0 has none
  // and is never sent.
  int32_t prompt_logprobs_begin = 0;
  std::vector<TokenLogprobs> prompt_logprobs;
  Status status;  // not ok: this request failed (for example non-finite logits); the others are
                  // unharmed
};

// Where an executor spent a step, microseconds, and the CPU threads that it had; zero from
// executors that do not say.
struct StepTimings {
  int64_t inputs_us = 0;  // request state, flattening, block copies
  int64_t forward_us = 0;
  int64_t logits_us = 0;
  int64_t sample_us = 0;
  int32_t num_members = 0;   // of the thread team, after the step
  int64_t late_members = 0;  // times that a member waited for a core in the step
};

struct StepResult {
  uint64_t step_id = 0;
  std::vector<RequestStepResult> requests;  // one per StepPlan::scheduled, same order
  int64_t execute_us = 0;
  StepTimings timings;
};

}  // namespace quire
