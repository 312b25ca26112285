// Drafts that a smaller model says: what it would sample if it were the model that is served.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "draft/drafter.h"

namespace quire {

// Runs a model beside the served one, with KV blocks of its own. It samples with the request's own
// parameters and seed, at the same positions: noise is a function of these (core/sampling_params.h),
// so where the two models' distributions are alike, so are the samples, at any temperature.
//
// It is fed what the request has gained since it was last asked. What was refused of its drafts is
// written over. Nothing here can change what comes out.
class ExecutorDrafter final : public Drafter {
 public:
  struct Options {
    int32_t num_blocks = 0;       // of its KV, the null block included
    int32_t max_step_tokens = 0;  // of its executor
    int32_t max_seqs = 0;         // the same
    RowTimes step_times;          // unknown: its drafts are taken to cost nothing
    DraftClass draft_class = {.source = kModelDraftSource, .prior = 0.7};
  };
  static constexpr DraftSource kModelDraftSource = 16;

  // `executor` is initialised with that many blocks. kInvalidArgument: its layers keep states, which
  // refused drafts would have changed.
  static Result<std::unique_ptr<ExecutorDrafter>> create(std::unique_ptr<Executor> executor,
                                                         Options options);

  // A prompt that is longer than a step takes several calls until there are drafts. Without room in
  // its KV the request that was asked least recently gives its blocks up. Requests with an adapter
  // get no drafts.
  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId id) override;
  const DraftingCost* cost() const override { return cost_.step_times.known() ? &cost_ : nullptr; }

  int32_t num_free_blocks() const { return static_cast<int32_t>(free_blocks_.size()); }

 private:
  struct Record {
    std::vector<TokenId> token_ids;  // that its KV was computed for, and those behind
    int32_t num_computed = 0;
    std::vector<std::vector<BlockId>> tables;  // by group
    std::shared_ptr<const SamplingParams> params;
    bool known_to_executor = false;
    uint64_t last_call = 0;
  };
  // A query while it is answered.
  struct Active {
    DraftQuery* query = nullptr;
    Record* record = nullptr;
    size_t num_text_tokens = 0;
    bool done = false;
  };

  ExecutorDrafter(std::unique_ptr<Executor> executor, Options options);

  Record& record_of(const Request& request);
  bool reserve(Record& record, int32_t num_tokens);
  bool evict();
  void release(Record& record);
  void feed();
  void draft_on();
  bool run(StepPlan& plan, std::span<Active*> scheduled);

  const std::unique_ptr<Executor> executor_;
  const Options options_;
  const DraftingCost cost_;
  const KvSpec kv_;
  const int32_t max_model_len_;
  std::unordered_map<RequestId, Record> records_;
  std::vector<BlockId> free_blocks_;
  std::vector<RequestId> dropped_;  // to be told to the executor
  std::vector<Active> active_;
  uint64_t num_calls_ = 0;
  uint64_t step_id_ = 0;
};

}  // namespace quire
