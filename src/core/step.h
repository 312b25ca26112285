// A step: the work that the scheduler grants (StepPlan), and its outcome (StepResult).
//
// The plan is a diff. A request is sent whole once, in new_requests, when it is first scheduled
// (and again when it resumes after a preemption); afterwards the plan has only counts and new
// blocks of it. The executor keeps the state of a request from new_requests until `dropped` names
// its id.
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
  // All known tokens: the prompt, and after a preemption the output too.
  std::vector<TokenId> token_ids;
  int32_t num_prompt_tokens = 0;
  std::shared_ptr<const SamplingParams>
      params;  // shared with the frontend's and the engine's record of the request
  RequestKind kind = RequestKind::kGenerate;
  std::shared_ptr<const Adapter> adapter = {};        // one that this executor loaded; null: none
  std::shared_ptr<const PoolingParams> pooling = {};  // Request::pooling
  std::vector<MediaSpan> media = {};                  // Request::media
};

// Sets entry `logical_index` of the request's block table in `group` to `block`.
struct BlockTableUpdate {
  int32_t request_index = 0;  // index in StepPlan::scheduled
  int32_t group = 0;
  int32_t logical_index = 0;
  BlockId block;
};

// Copies the content of one block to another before the forward pass (copy-on-write).
struct BlockCopy {
  BlockId source;
  BlockId destination;
  KvPool pool = KvPool::kAttention;  // the pool of both blocks
};

// Copies the content of one block to or from a block of host memory.
struct HostBlockCopy {
  BlockId block;
  BlockId host_block;
  bool to_host = false;
  KvPool pool = KvPool::kAttention;  // the pool of `block`; each pool has its own host blocks
};

// The step computes positions [num_computed_tokens, num_computed_tokens + num_scheduled_tokens) of
// the request. If that reaches the end of its known tokens, a token is sampled, unless the request
// is of a kind that samples nothing. Drafts are guesses of the tokens after the known ones. Each is
// computed as if it were right; if the token sampled at its place equals it, one more token is
// sampled after it. So a step with k drafts returns 1 to k + 1 tokens, the same ones that as many
// steps without drafts would return.
struct ScheduledRequest {
  RequestId id;
  int32_t num_computed_tokens = 0;
  int32_t num_scheduled_tokens = 0;  // >= 1, drafts included
  // The number of drafts, which are the last of the scheduled tokens: StepPlan::draft_token_ids
  // from first_draft on. If there are any, all tokens before them are known, and no other step of
  // the request is under way.
  int32_t num_drafts = 0;
  int32_t first_draft = 0;
  // Row of StepPlan::token_masks for the first sampled token; the next row is for the next token,
  // and so on. -1: every token is allowed.
  int32_t mask_row = -1;
};

struct StepPlan {
  uint64_t step_id = 0;
  std::vector<RequestId>
      dropped;  // finished, aborted or preempted since the last plan; applies first
  std::vector<NewRequest> new_requests;
  // Keys of items whose embeddings are no longer needed. Applied before media_inputs.
  std::vector<std::string> freed_media;
  // Items to encode before anything is computed. Their embeddings are kept until freed_media names
  // them. If the step fails, its items are sent again when they are needed.
  std::vector<std::shared_ptr<const MediaItem>> media_inputs;
  std::vector<ScheduledRequest> scheduled;  // in batch order
  std::vector<BlockTableUpdate> block_updates;
  // Copies that are made first, in this order, even if the step fails: later plans rely on them.
  std::vector<HostBlockCopy> host_copies;
  std::vector<BlockCopy> block_copies;  // made after host_copies, in any order
  int32_t total_num_scheduled_tokens = 0;
  std::vector<TokenId> draft_token_ids;  // the drafts of all requests
  // Masks that the engine adds to the scheduler's plan. The tokens that a row excludes are no part
  // of the distribution: they are never sampled, and logprobs are over the remaining tokens.
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

// Natural logarithms of the model's probabilities, over the tokens that a mask allows, before
// penalties and temperature.
struct TokenLogprobs {
  TokenId token_id = 0;
  float logprob = 0.0f;
  int32_t rank = 0;                            // 1 = most likely
  std::vector<std::pair<TokenId, float>> top;  // most likely first; ties by smaller id
};

struct RequestStepResult {
  RequestId id;
  // Empty while known tokens are left to compute. Otherwise the accepted drafts, then one more
  // token.
  std::vector<TokenId> sampled_token_ids;
  std::vector<TokenLogprobs> logprobs;  // one per sampled token when asked for
  // Log-probabilities of the prompt tokens from position prompt_logprobs_begin on. Position 0 has
  // none and is never sent.
  int32_t prompt_logprobs_begin = 0;
  std::vector<TokenLogprobs> prompt_logprobs;
  // For requests with Request::pooling, once the last token of the prompt is computed.
  PooledOutput pooled;
  Status status;  // not ok: this request failed (for example non-finite logits); the others are
                  // unharmed
};

// How long the parts of a step took, in microseconds, and the CPU threads that it had; zero from
// executors that do not measure.
struct StepTimings {
  int64_t inputs_us = 0;   // request state, flattening of the batch, block copies
  int64_t encoder_us = 0;  // encoding of media
  int64_t forward_us = 0;
  int64_t logits_us = 0;
  int64_t sample_us = 0;
  int32_t num_members = 0;   // members of the thread team after the step
  int64_t late_members = 0;  // how often a member waited for a core during the step
};

struct StepResult {
  uint64_t step_id = 0;
  std::vector<RequestStepResult> requests;  // one per StepPlan::scheduled, same order
  int64_t execute_us = 0;
  StepTimings timings;
  std::vector<int64_t> media_encode_us;  // for each item that the step encoded
};

}  // namespace quire
