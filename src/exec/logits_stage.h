// LogitsStage computes sampled tokens and logprobs from hidden states. It computes the logits of
// the wanted rows in batches, so that their buffer stays bounded, and then samples the rows in
// parallel, each on one thread. A row's outcome depends on that row alone (law L4).
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
  // Computes the logits of the given tokens of the last forward pass into the first rows of
  // `logits`.
  using ComputeLogits = std::function<Status(std::span<const int32_t> tokens)>;
  // Finds the greatest logits of those rows, as `found` [threads, tokens], with `logits` as scratch
  // memory. `allowed` is that of LinearParams. Returns false if it cannot tell, in which case the
  // logits are computed.
  using FindGreatest =
      std::function<bool(std::span<const int32_t> tokens, const uint32_t* const* allowed,
                         std::span<RowGreatest> found)>;

  // Borrows `logits` [max_rows, vocab_size]. `find_greatest` may be empty; otherwise it runs for
  // steps in which every row wants its likeliest token and nothing else.
  LogitsStage(ComputeLogits compute, FindGreatest find_greatest, ThreadTeam& team,
              std::span<float> logits, int64_t vocab_size, int64_t max_rows);

  using Observer = std::function<void(RequestId, int32_t, std::span<const float>)>;

  // Fills `results` (one per request of the batch) and appends sampled tokens to the requests. A
  // row that cannot be sampled fails its own request only. If that row is behind a draft, it is
  // treated as if the draft had been wrong, and the next step computes the same row again. If the
  // logits cannot be computed, the step fails.
  Status run(const InputBatch& batch, std::vector<RequestStepResult>& results,
             const Observer& observer, StepTimings& timings);

  // Computes the logits in the same batches and samples nothing, for a rank whose tokens another
  // rank samples.
  Status compute_only(const InputBatch& batch);

  struct Outcome {
    bool is_reached = true;  // false: a draft before the row was wrong, and the row is ignored
    Status status;
    SampleOutput output;
  };
  // Appends the token that a row sampled to the request. Called in the order of the request's rows.
  static void append(const LogitsRow& row, RequestState& state, Outcome& outcome);
  // Writes the outcome of a row that is_reached into the request's status and its result.
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
  std::vector<size_t> starts_;            // rows that need not wait for another, [max_rows]
  std::vector<Outcome> outcomes_;         // [max_rows]
  std::vector<RowGreatest> greatest_;     // [threads, max_rows]
  std::vector<const uint32_t*> allowed_;  // [max_rows]
};

}  // namespace quire
