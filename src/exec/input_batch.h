// InputBatch turns a step into flat arrays, the only form in which kernels see requests. The arrays
// are allocated once, for the largest step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/hidden_rows.h"
#include "core/step.h"
#include "exec/request_table.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// A row of logits that the step needs. The rows that sample for one request come in the order of
// their positions; every row but the first is computed from a draft.
struct LogitsRow {
  int32_t token = 0;          // row of the flattened batch
  int32_t request_index = 0;  // into StepPlan::scheduled
  int32_t position = 0;       // of the token that the logits predict
  // Whether the row samples the request's next token; otherwise it gives a known prompt token's
  // logprob.
  bool samples = false;
  int32_t mask_row = -1;  // of the step's token masks; -1: none
  // The drafted token at the position before the row's, from which the row was computed; the row
  // counts only if the request has this token there. -1: all tokens before the row are known.
  TokenId draft = -1;
};

// Returns whether the row was computed from the tokens that the request has by now, those sampled
// in this step included.
bool is_reached(const LogitsRow& row, const RequestState& state);

// Empties the results but keeps their memory for the next step.
void clear_results(std::vector<RequestStepResult>& results);

// Returns the most segments, which are runs of tokens with states, that a step can have: per
// request one more than the number of state blocks that it fills.
int64_t max_state_segments(const DecoderLimits& limits, const KvSpec& kv);

class InputBatch {
 public:
  InputBatch(const DecoderLimits& limits, const KvSpec& kv, Arena& arena);
  // Makes a batch without arrays, which checks plans, lists rows of logits and cuts segments, for a
  // device that builds the arrays itself.
  InputBatch(const DecoderLimits& limits, const KvSpec& kv);
  static int64_t arena_bytes(const DecoderLimits& limits, const KvSpec& kv);
  static int64_t max_blocks(const DecoderLimits& limits, int32_t block_size) {
    return (limits.max_seq_len + block_size - 1) / block_size;
  }

  // Sets how many pixels of a picture's side become one embedding, for models whose tokens have
  // rows and columns.
  void set_picture_cell_size(int32_t pixels) { picture_cell_size_ = pixels; }

  // The tokens of a picture see each other in both directions (MediaInfo::is_bidirectional).
  void set_sees_whole_pictures() { sees_whole_pictures_ = true; }

  // Flattens the plan. kInternal: the plan contradicts the requests or the limits; then nothing may
  // run.
  Status build(const StepPlan& plan, RequestTable& requests);

  // Returns the arrays, which are valid until the next build(). A batch without arrays returns only
  // the counts and the adapters.
  ForwardInputs inputs() const;
  // Returns the segments in host memory, valid until the next build().
  StateSegments segments() const {
    return {segment_start_loc_, state_in_, state_out_, num_segments_};
  }
  int64_t num_tokens() const { return num_tokens_; }
  int32_t num_reqs() const { return num_reqs_; }
  int32_t max_query_len() const { return max_query_len_; }
  // Starts one result per scheduled request, with its id and, if the request was found invalid when
  // it came, its error.
  void start_results(const StepPlan& plan, std::vector<RequestStepResult>& results) const;
  std::span<const LogitsRow> logits_rows() const { return rows_; }
  RequestState& request(size_t index) const { return *states_[index]; }
  // Returns the mask of the tokens that the row may sample; empty: it may sample all. The plan need
  // not exist any more.
  std::span<const uint32_t> token_mask(const LogitsRow& row) const {
    return row.mask_row < 0 ? std::span<const uint32_t>() : token_masks_.row(row.mask_row);
  }

 private:
  Status take_masks(const StepPlan& plan);
  void list_adapters(const StepPlan& plan);
  Status add(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
             RequestState& state, int32_t index);
  Status check(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
               const RequestState& state) const;
  Status add_blocks(const ScheduledRequest& scheduled, const RequestState& state, size_t group);
  // Adds the request's tokens, cut wherever a block of states ends.
  Status add_segments(const ScheduledRequest& scheduled, const RequestState& state, size_t group);
  void add_tokens(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
                  const RequestState& state);
  // Sets, for each of the request's tokens, the end of the positions that it sees.
  Status add_seen_ends(const ScheduledRequest& scheduled, const RequestState& state);
  void add_logits_rows(const ScheduledRequest& scheduled, std::span<const TokenId> drafts,
                       const RequestState& state, int32_t index);

  DecoderLimits limits_;
  int32_t block_size_;
  int32_t state_block_size_;
  std::vector<KvPool> pools_;  // per group; groups of states come last
  int64_t max_blocks_;
  int32_t picture_cell_size_ = 0;
  bool sees_whole_pictures_ = false;
  bool has_own_ends_ = false;  // some token of the step sees beyond its own position
  int64_t vocab_size_ = 0;     // of the step
  int64_t num_tokens_ = 0;
  int32_t num_reqs_ = 0;
  int32_t max_query_len_ = 0;
  // The arrays; null in a batch without them.
  TokenId* input_ids_ = nullptr;          // [T]
  int32_t* positions_ = nullptr;          // [T]
  int32_t* axis_positions_ = nullptr;     // [T, 3]
  int32_t* token_types_ = nullptr;        // [T]
  int32_t* seen_ends_ = nullptr;          // [T]
  int32_t* query_start_loc_ = nullptr;    // [R + 1]
  int32_t* seq_lens_ = nullptr;           // [R]
  std::vector<int64_t*> slot_mapping_;    // per group [T]; null for states
  std::vector<int32_t*> block_table_;     // per group [R, max_blocks]; null for states
  int32_t* segment_start_loc_ = nullptr;  // [max_segments + 1], with states
  int32_t* state_in_ = nullptr;           // [max_segments]
  int32_t* state_out_ = nullptr;          // [max_segments]
  int32_t num_segments_ = 0;
  std::vector<int32_t> own_segments_;  // the segments of a batch without an arena
  std::vector<KvGroupInputs> groups_;
  std::vector<int32_t> lora_rows_;  // [T], adapter by adapter
  std::vector<LoraRows> adapters_;
  std::vector<LogitsRow> rows_;
  TokenMasks token_masks_;
  std::vector<RequestState*> states_;  // [R]
};

// Fills `texts` with the step's requests, in the form that readers of hidden states need.
void list_texts(const InputBatch& batch, std::vector<HiddenText>& texts);

}  // namespace quire
