// A step as flat arrays, the only form in which kernels see requests. Arrays are made once for the
// largest step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/step.h"
#include "exec/request_table.h"
#include "nn/decoder.h"
#include "tensor/arena.h"

namespace quire {

// One row of logits that somebody wants.
struct LogitsRow {
  int32_t token = 0;          // row of the flattened batch
  int32_t request_index = 0;  // into StepPlan::scheduled
  int32_t position = 0;       // of the token that the logits predict
  bool samples =
      false;  // the request's next token; otherwise the logprob of a known prompt token is wanted
};

// kInternal: a copy from or to a block that does not exist, or to the null block.
Status check_block_copies(const StepPlan& plan, int32_t num_blocks);

class InputBatch {
 public:
  InputBatch(const DecoderLimits& limits, int32_t block_size, int32_t num_groups, Arena& arena);
  // Checks plans and lists rows of logits, for a device that builds the arrays itself.
  InputBatch(const DecoderLimits& limits, int32_t block_size, int32_t num_groups);
  static int64_t arena_bytes(const DecoderLimits& limits, int32_t block_size, int32_t num_groups);
  static int64_t max_blocks(const DecoderLimits& limits, int32_t block_size) {
    return (limits.max_seq_len + block_size - 1) / block_size;
  }

  // Flattens the plan. kInternal: the plan contradicts the requests or the limits; nothing may run
  // then.
  Status build(const StepPlan& plan, RequestTable& requests);

  ForwardInputs inputs() const;  // valid until the next build(); needs the arrays
  int64_t num_tokens() const { return num_tokens_; }
  int32_t num_reqs() const { return num_reqs_; }
  int32_t max_query_len() const { return max_query_len_; }
  // One entry per scheduled request: its id, and whether it was found wrong when it came.
  void start_results(const StepPlan& plan, std::vector<RequestStepResult>& results) const;
  std::span<const LogitsRow> logits_rows() const { return rows_; }
  RequestState& request(size_t index) const { return *states_[index]; }

 private:
  Status add(const ScheduledRequest& scheduled, RequestState& state, int32_t index);
  Status add_blocks(const ScheduledRequest& scheduled, const RequestState& state, size_t group);
  void add_tokens(const ScheduledRequest& scheduled, const RequestState& state);
  void add_logits_rows(const ScheduledRequest& scheduled, const RequestState& state, int32_t index);

  DecoderLimits limits_;
  int32_t block_size_;
  int64_t max_blocks_;
  int64_t num_tokens_ = 0;
  int32_t num_reqs_ = 0;
  int32_t max_query_len_ = 0;
  // Null without the arrays.
  TokenId* input_ids_ = nullptr;        // [T]
  int32_t* positions_ = nullptr;        // [T]
  int32_t* query_start_loc_ = nullptr;  // [R + 1]
  int32_t* seq_lens_ = nullptr;         // [R]
  std::vector<int64_t*> slot_mapping_;  // per group [T]
  std::vector<int32_t*> block_table_;   // per group [R, max_blocks]
  std::vector<KvGroupInputs> groups_;
  std::vector<LogitsRow> rows_;
  std::vector<RequestState*> states_;  // [R]
};

}  // namespace quire
