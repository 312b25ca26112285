// What frontends and the engine say to each other: a request for text, the deltas of its answer,
// the stream that carries them.
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

// What a client asks: one prompt, n choices.
struct GenerationRequest {
  std::string external_id;  // "cmpl-…", "chatcmpl-…": for logs, metrics and the block grid
  std::vector<TokenId> prompt_token_ids;
  // kPool ends with FinishReason::kLength and no token; so does max_tokens 0.
  RequestKind kind = RequestKind::kGenerate;
  // Requests of kind kPool say here what they want of the prompt's hidden states; others have null.
  std::shared_ptr<const PoolingParams> pooling = {};
  std::vector<MediaSpan> media = {};  // in order of their tokens, none overlaps another
  SamplingParams params;
  int32_t num_choices = 1;  // n: they share the prompt's KV
  // Set: the choices are the best of a search with num_choices beams, best first. They come when it
  // is over. Nothing is drawn, so what `params` says of that has no effect.
  std::optional<BeamSearchParams> beam_search = {};
  bool wants_text_ends = false;  // deltas say where the text of each token ends
  int32_t priority = 0;
  CacheKeys cache_keys;                         // its adapter is the engine's to fill in
  std::shared_ptr<const Adapter> adapter = {};  // of this engine's model; null: the model itself
  // The last delta comes when the prompt's KV lies in files, and says what does.
  bool hands_over_kv = false;
  // What another engine has of the prompt's KV; shared with nobody who changes it. Null: nothing.
  std::shared_ptr<const KvHandover> handover = {};
  int64_t arrival_us = 0;  // engine clock; the frontend first saw the request then: TTFT starts
  // From arrival; past it the request ends with kDeadlineExceeded and its blocks are free.
  std::optional<int64_t> timeout_us;
  // What the whole text of each choice must be.
  std::optional<StructuredOutputs> structured_outputs;
  std::optional<ReasoningBudget> reasoning_budget;
  // Makes the source of what the tokens of each choice must keep to beside `params`; it is empty
  // when there is nothing. The engine makes it from structured_outputs and reasoning_budget.
  MakeTokenMaskSource make_mask_source;
};

enum class FinishReason : uint8_t { kStop, kLength, kAbort, kError };
std::string_view to_string(FinishReason reason);  // "stop", "length", "abort", "error"

// The moments of one choice's life, by the engine's clock. Preemptions count into the interval that
// they fall in.
struct ChoiceTimes {
  int64_t arrival_us = 0;  // at the frontend
  int64_t queued_us = 0;   // in the engine's queue
  int64_t first_scheduled_us = 0;
  int64_t first_token_us = 0;
  int64_t last_token_us = 0;
};

// Counts one choice's drafts. Tokens that came out of drafts are the choice's own either way.
struct DraftCounts {
  int64_t num_steps = 0;  // in which drafts were verified
  int64_t num_drafts = 0;
  int64_t num_accepted = 0;
  // Of these, from SamplingParams::prediction_token_ids.
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

// A delta is what one choice has brought since its last delta. Bytes of `text` are always whole
// UTF-8 characters.
struct OutputDelta {
  int32_t choice_index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  // When asked for, one per token where there is text: bytes that the choice's text has with it, from its first
  // token on and as if no stop string were held back or found.
  std::vector<int64_t> text_ends_bytes;
  std::vector<TokenLogprobs> logprobs;  // one per token when asked for
  // On the first delta of choice 0 only. It comes with the first token, so an engine that fails
  // before that gives one delta, the last.
  std::vector<TokenLogprobs> prompt_logprobs;  // for prompt positions 1, 2, … when asked for
  int32_t num_cached_tokens = 0;               // prompt tokens read from the prefix cache
  // On the last delta of this choice, as what follows.
  PooledOutput pooled;  // with GenerationRequest::pooling
  std::optional<FinishReason> finish_reason;
  // The stop string or stop token id that ended it; none for EOS.
  std::variant<std::monostate, std::string, TokenId> stop_reason;
  std::optional<ChoiceTimes> times;
  DraftCounts drafts;
  // The last delta of the last choice has it when GenerationRequest::hands_over_kv was set;
  // otherwise it is null.
  std::shared_ptr<const KvHandover> handover = {};
  // Why, with FinishReason::kError: kDeadlineExceeded, kResourceExhausted (the queue filled up
  // meanwhile), kInternal …; and with kAbort when the engine did it: kResourceExhausted (the reader
  // was too slow), kUnavailable (shut down).
  Status status;
};

// The reader's end of an answer. One thread at a time may read; destroying the stream before the
// last delta aborts the request. Deltas of one choice come in order and are whole: put together
// they are the answer. Deltas that the reader leaves unread are merged, so a delta holds one or
// more tokens. A stream may outlive the engine.
class OutputStream {
 public:
  virtual ~OutputStream() = default;
  // Returns the next delta, or nullopt when none has come yet.
  virtual std::optional<OutputDelta> try_pop() = 0;
  // Waits for a delta; nullopt when every choice has finished and all is read.
  virtual std::optional<OutputDelta> pop() = 0;
  // Every choice has finished and all is read.
  virtual bool done() const = 0;
  virtual void abort() = 0;
};

}  // namespace quire
