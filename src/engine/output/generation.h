// The data that frontends and the engine exchange: a request for text, the deltas of its answer,
// and the stream that carries them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/beam_search_params.h"
#include "core/kv_files.h"
#include "core/pooling.h"
#include "core/request.h"
#include "core/sampling_params.h"
#include "core/step.h"
#include "core/structured_outputs.h"
#include "engine/output/reasoning_budget.h"
#include "engine/output/token_mask_source.h"

namespace quire {

// A client's request: one prompt, n choices.
struct GenerationRequest {
  std::string external_id;  // "cmpl-…", "chatcmpl-…", for logs, metrics and the block grid
  std::vector<TokenId> prompt_token_ids;
  // A request of kind kPool ends with FinishReason::kLength and no token; so does one with
  // max_tokens 0.
  RequestKind kind = RequestKind::kGenerate;
  // What a request of kind kPool wants of the prompt's hidden states; null for other kinds.
  std::shared_ptr<const PoolingParams> pooling = {};
  std::vector<MediaSpan> media = {};  // in the order of their tokens, without overlaps
  SamplingParams params;
  int32_t num_choices = 1;  // n: the choices share the prompt's KV
  // If set, the choices are the best texts of a search with num_choices beams, best first. They
  // come when the search is over. Nothing is sampled, so the settings of `params` for sampling have
  // no effect.
  std::optional<BeamSearchParams> beam_search = {};
  bool wants_text_ends = false;  // deltas give the end of each token's text
  int32_t priority = 0;
  CacheKeys cache_keys;                         // the engine fills in the adapter's key
  std::shared_ptr<const Adapter> adapter = {};  // of this engine's model; null: no adapter
  // If set, the last delta comes when the prompt's KV is in files, and describes these.
  bool hands_over_kv = false;
  // The prompt's KV that another engine has, which nobody changes. Null: there is none.
  std::shared_ptr<const KvHandover> handover = {};
  int64_t arrival_us = 0;  // engine clock; when the frontend received it, from which TTFT counts
  // From arrival; then the request ends with kDeadlineExceeded and its blocks are freed.
  std::optional<int64_t> timeout_us;
  // The rule that the whole text of each choice must follow.
  std::optional<StructuredOutputs> structured_outputs;
  std::optional<ReasoningBudget> reasoning_budget;
  // Makes the source of the masks for the tokens of each choice; empty if every token is allowed.
  // The engine sets it from structured_outputs and reasoning_budget.
  MakeTokenMaskSource make_mask_source;
};

enum class FinishReason : uint8_t { kStop, kLength, kAbort, kError };
std::string_view to_string(FinishReason reason);  // "stop", "length", "abort", "error"

// The times of one choice, by the engine's clock. A preemption counts into the interval in which it
// happens.
struct ChoiceTimes {
  int64_t arrival_us = 0;  // at the frontend
  int64_t queued_us = 0;   // in the engine's queue
  int64_t first_scheduled_us = 0;
  int64_t first_token_us = 0;
  int64_t last_token_us = 0;
};

// One choice's drafts. Tokens that were accepted from drafts are ordinary tokens of the choice.
struct DraftCounts {
  int64_t num_steps = 0;  // in which its drafts were verified
  int64_t num_drafts = 0;
  int64_t num_accepted = 0;
  // Drafts among these from SamplingParams::prediction_token_ids.
  int64_t num_prediction_drafts = 0;
  int64_t num_prediction_accepted = 0;

  void add(const DraftCounts& other) {
    num_steps += other.num_steps;
    num_drafts += other.num_drafts;
    num_accepted += other.num_accepted;
    num_prediction_drafts += other.num_prediction_drafts;
    num_prediction_accepted += other.num_prediction_accepted;
  }
};

// The output of one choice since its last delta. `text` always has whole UTF-8 characters.
struct OutputDelta {
  int32_t choice_index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  // If asked for, one per token where there is text: the bytes of the choice's text after this
  // token, counted from its first token on and as if no stop string were held back or found.
  std::vector<int64_t> text_ends_bytes;
  std::vector<TokenLogprobs> logprobs;  // one per token when asked for
  // Set on the first delta of choice 0 only. This comes with the first token; if the engine fails
  // before that, the choice has only one delta, the last.
  std::vector<TokenLogprobs> prompt_logprobs;  // for prompt positions 1, 2, … when asked for
  int32_t num_cached_tokens = 0;               // prompt tokens read from the prefix cache
  // This and the following are set on the last delta of the choice.
  PooledOutput pooled;  // with GenerationRequest::pooling
  std::optional<FinishReason> finish_reason;
  // The stop string or stop token id that ended it; none for EOS.
  std::variant<std::monostate, std::string, TokenId> stop_reason;
  std::optional<ChoiceTimes> times;
  DraftCounts drafts;
  // Set on the last delta of the last choice if GenerationRequest::hands_over_kv was set; otherwise
  // null.
  std::shared_ptr<const KvHandover> handover = {};
  // The reason for FinishReason::kError: kDeadlineExceeded, kResourceExhausted (the queue filled up
  // meanwhile), kInternal …; and for a kAbort by the engine: kResourceExhausted (the reader was too
  // slow), kUnavailable (shut down).
  Status status;
};

// The reader's end of an answer. One thread at a time may read; destroying the stream before the
// last delta aborts the request. The deltas of one choice come in order, and together they are the
// whole answer. Unread deltas are merged, so a delta has one or more tokens. A stream may outlive
// the engine.
class OutputStream {
 public:
  virtual ~OutputStream() = default;
  // Returns the next delta, or nullopt when none has come yet.
  virtual std::optional<OutputDelta> try_pop() = 0;
  // Waits for a delta; nullopt when every choice has finished and all is read.
  virtual std::optional<OutputDelta> pop() = 0;
  // Whether every choice has finished and all is read.
  virtual bool done() const = 0;
  virtual void abort() = 0;
};

}  // namespace quire
