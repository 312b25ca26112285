// LogitsStage goes from hidden states to sampled tokens and logprobs: it computes logits of the
// wanted rows, so many at a time that their buffer stays bounded, then samples each row by itself
// on a thread of its own. A row's outcome depends on that row alone (law L4).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/threads/thread_team.h"
#include "core/step.h"
#include "exec/input_batch.h"
#include "exec/model_plan.h"
#include "kernels/api/linear.h"
#include "sample/sampler.h"

namespace quire {

class LogitsStage {
 public:
  // Fills the first rows of `logits` with those of the given tokens of the last forward pass.
  using ComputeLogits = std::function<Status(std::span<const int32_t> tokens)>;
  // Of those rows the greatest logits, in the first of `found`, [threads, tokens]; `logits` is
  // scratch. `allowed`: as LinearParams::allowed. false: it cannot tell, and the logits are wanted.
  using FindGreatest =
      std::function<bool(std::span<const int32_t> tokens, const uint32_t* const* allowed,
                         std::span<RowGreatest> found)>;

  // `logits` [max_rows, vocab_size] are borrowed. `find_greatest` may be empty; else it takes the
  // steps whose rows all want nothing but their likeliest token.
  LogitsStage(ComputeLogits compute, FindGreatest find_greatest, ThreadTeam& team,
              std::span<float> logits, int64_t vocab_size, int64_t max_rows);

  using Observer = std::function<void(RequestId, int32_t, std::span<const float>)>;

  // Fills `results` (one per request of the batch) and appends sampled tokens to the requests. A
  // row that cannot be sampled fails its request only, and behind a draft it is as if the draft had
  // been wrong: the next step comes to the same row. Logits that cannot be computed fail the step.
  Status run(const InputBatch& batch, std::vector<RequestStepResult>& results,
             const Observer& observer, StepTimings& timings);

  // The logits alone, in as many calls: what a rank does whose samples another draws.
  Status compute_only(const InputBatch& batch);

  struct Outcome {
    bool is_reached = true;  // false: a draft before the row was wrong, and nothing came of it
    Status status;
    SampleOutput output;
  };
  // Appends what was sampled in a row to the request: in the order of its rows.
  static void append(const LogitsRow& row, RequestState& state, Outcome& outcome);
  // Writes the outcome of a row that was reached into the request's status and its result.
  static void store(const LogitsRow& row, RequestState& state, Outcome& outcome,
                    RequestStepResult& result);

 private:
  void sample_rows(const InputBatch& batch, std::span<const LogitsRow> rows);
  bool find_greatest(const InputBatch& batch, std::span<const LogitsRow> rows);
  void choose_greatest(const InputBatch& batch, std::span<const LogitsRow> rows);
  void sample_row(const InputBatch& batch, const LogitsRow& row, std::span<const float> logits,
                  Sampler& sampler, Outcome& outcome);

  ComputeLogits compute_;
  FindGreatest find_greatest_;
  ThreadTeam& team_;
  std::span<float> logits_;
  size_t vocab_size_;
  size_t max_rows_;
  std::vector<Sampler> samplers_;         // one per thread
  std::vector<int32_t> tokens_;           // [max_rows]
  std::vector<size_t> starts_;            // of rows that do not wait for the row before, [max_rows]
  std::vector<Outcome> outcomes_;         // [max_rows]
  std::vector<RowGreatest> greatest_;     // [threads, max_rows]
  std::vector<const uint32_t*> allowed_;  // [max_rows]
};

}  // namespace quire
