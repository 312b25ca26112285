// A step: what the scheduler grants (StepPlan), and what came of it (StepResult).
//
// The plan is a diff. A request is sent whole once, in new_requests, when it is first scheduled
// (and again when it resumes after a preemption); afterwards only counts and new blocks travel. The
// executor keeps per-request state from new_requests until `dropped` names the id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/adapter.h"
#include "core/kv_spec.h"
#include "core/media.h"
#include "core/pooling.h"
#include "core/request_kind.h"
#include "core/sampling_params.h"
#include "core/token_masks.h"

namespace quire {

struct NewRequest {
  RequestId id;
  // All tokens that are known: the prompt, and after a preemption the output too.
  std::vector<TokenId> token_ids;
  int32_t num_prompt_tokens = 0;
  std::shared_ptr<const SamplingParams>
      params;  // shared with the frontend's and the engine's record of the request
  RequestKind kind = RequestKind::kGenerate;
  std::shared_ptr<const Adapter> adapter = {};        // of this executor; null: none
  std::shared_ptr<const PoolingParams> pooling = {};  // as Request has it
  std::vector<MediaSpan> media = {};                  // likewise
};

// Entry `logical_index` of the request's block table in `group` is now `block`.
struct BlockTableUpdate {
  int32_t request_index = 0;  // into StepPlan::scheduled
  int32_t group = 0;
  int32_t logical_index = 0;
  BlockId block;
};

// Copy the content of one block onto another before the forward pass (copy-on-write).
struct BlockCopy {
  BlockId source;
  BlockId destination;
  KvPool pool = KvPool::kAttention;  // of both
};

// Copy the content of one block to or from a block of host memory.
struct HostBlockCopy {
  BlockId block;
  BlockId host_block;
  bool to_host = false;
  KvPool pool = KvPool::kAttention;  // of `block`; each pool has host blocks of its own
};

// Positions [num_computed_tokens, num_computed_tokens + num_scheduled_tokens) of the request run in
// this step. When that reaches the end of its known tokens, a token is sampled, unless the request
// is of a kind that samples nothing. Drafts are guesses of the tokens behind the known ones: each
// is computed as if it were right, and where the token sampled for its place equals it, one more
// token is sampled behind it. So a step with k drafts brings 1 to k + 1 tokens, those that as many
// steps without drafts would bring.
struct ScheduledRequest {
  RequestId id;
  int32_t num_computed_tokens = 0;
  int32_t num_scheduled_tokens = 0;  // >= 1, drafts included
  // The last tokens are drafts: StepPlan::draft_token_ids from first_draft on. With drafts, all
  // tokens before them are known, and no other step of the request is under way.
  int32_t num_drafts = 0;
  int32_t first_draft = 0;
  // Row of StepPlan::token_masks that the first sampled token must keep to, the next row is of the
  // next one; -1: every token is allowed.
  int32_t mask_row = -1;
};

struct StepPlan {
  uint64_t step_id = 0;
  std::vector<RequestId>
      dropped;  // finished, aborted or preempted since the last plan; applies first
  std::vector<NewRequest> new_requests;
  // Names items whose embeddings nobody needs any longer. It applies before media_inputs.
  std::vector<std::string> freed_media;
  // These items are encoded before anything is computed. Their embeddings are kept until
  // freed_media names them; those of a step that failed are sent again when they are needed.
  std::vector<std::shared_ptr<const MediaItem>> media_inputs;
  std::vector<ScheduledRequest> scheduled;  // in batch order
  std::vector<BlockTableUpdate> block_updates;
  // Made first, in this order, whatever becomes of the step: later plans count on them.
  std::vector<HostBlockCopy> host_copies;
  std::vector<BlockCopy> block_copies;  // next, in any order
  int32_t total_num_scheduled_tokens = 0;
  std::vector<TokenId> draft_token_ids;  // of all requests
  // The engine adds these to the scheduler's plan. Tokens that a row leaves out are no part of the
  // distribution: they are never sampled, and logprobs are those of the tokens left.
  TokenMasks token_masks;

  bool empty() const { return scheduled.empty(); }
  std::span<const TokenId> drafts(const ScheduledRequest& request) const {
    return std::span(draft_token_ids)
        .subspan(static_cast<size_t>(request.first_draft), static_cast<size_t>(request.num_drafts));
  }
  void clear() {
    dropped.clear();
    new_requests.clear();
    freed_media.clear();
    media_inputs.clear();
    scheduled.clear();
    block_updates.clear();
    host_copies.clear();
    block_copies.clear();
    total_num_scheduled_tokens = 0;
    draft_token_ids.clear();
    token_masks.clear();
  }
};

// Natural logarithms of the model's distribution over the tokens that a mask leaves (before
// penalties and temperature).
struct TokenLogprobs {
  TokenId token_id = 0;
  float logprob = 0.0f;
  int32_t rank = 0;                            // 1 = most likely
  std::vector<std::pair<TokenId, float>> top;  // most likely first; ties by smaller id
};

struct RequestStepResult {
  RequestId id;
  // It is empty while known tokens are left to compute. Otherwise it has the drafts that came out,
  // then one token.
  std::vector<TokenId> sampled_token_ids;
  std::vector<TokenLogprobs> logprobs;  // one per sampled token when asked for
  // Log-probabilities of prompt tokens at positions prompt_logprobs_begin, … ; position 0 has none
  // and is never sent.
  int32_t prompt_logprobs_begin = 0;
  std::vector<TokenLogprobs> prompt_logprobs;
  // With Request::pooling, once the last token of the prompt is computed.
  PooledOutput pooled;
  Status status;  // not ok: this request failed (for example non-finite logits); the others are
                  // unharmed
};

// Where an executor spent a step, microseconds, and the CPU threads that it had; zero from
// executors that do not say.
struct StepTimings {
  int64_t inputs_us = 0;   // request state, flattening, block copies
  int64_t encoder_us = 0;  // of media
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
  std::vector<int64_t> media_encode_us;  // of each item that the step encoded
};

}  // namespace quire
