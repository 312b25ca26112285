// ExecutorDrafter drafts with a smaller model: the tokens that it would sample if it were the served
// model.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "core/hidden_rows.h"
#include "draft/drafter.h"

namespace quire {

// Runs a model beside the served one, with KV blocks of its own. It samples with the request's own
// parameters and seed, at the same positions. The noise is a function of these
// (core/sampling_params.h), so that where the distributions of the two models are alike, so are the
// samples, at any temperature.
//
// In each call, the model computes the tokens that the request has gained since the last one, which
// overwrite those of refused drafts. No draft changes the request's output.
class ExecutorDrafter final : public Drafter {
 public:
  struct Options {
    int32_t num_blocks = 0;       // of the model's KV, the null block included
    int32_t max_step_tokens = 0;  // of the model's executor
    int32_t max_seqs = 0;         // of the model's executor
    RowTimes step_times;          // unknown: its drafts are assumed to cost nothing
    DraftClass draft_class = {.source = kModelDraftSource, .prior = 0.7};
    // For a draft model that reads the served model's hidden states: where these are stored. Token
    // i + 1 of the text is the model's token i, which it reads together with the hidden state of
    // the token before.
    std::shared_ptr<HiddenRows> hidden_rows = {};
    int32_t max_drafts = 0;  // that it can make after one text; 0: any number
  };
  static constexpr DraftSource kModelDraftSource = 16;

  // `executor` is initialized with options.num_blocks blocks. kInvalidArgument: its layers have
  // states, which refused drafts would have changed.
  static Result<std::unique_ptr<ExecutorDrafter>> create(std::unique_ptr<Executor> executor,
                                                         Options options);

  ~ExecutorDrafter() override;

  // A prompt that is longer than a step needs several calls before there are drafts. If the KV has
  // no room, the request that was queried least recently loses its blocks. Requests with an adapter
  // get no drafts.
  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId id) override;
  const DraftingCost* cost() const override { return cost_.step_times.known() ? &cost_ : nullptr; }

  int32_t num_free_blocks() const { return static_cast<int32_t>(free_blocks_.size()); }

 private:
  struct Record {
    std::vector<TokenId> token_ids;  // those in its KV, and those that are still to be computed
    int32_t num_computed = 0;
    int32_t first_position = 0;                // position in the text of the first of these tokens
    std::vector<std::vector<BlockId>> tables;  // by group
    std::shared_ptr<const SamplingParams> params;
    bool known_to_executor = false;
    uint64_t last_call = 0;

    // Returns the position of the hidden state that its next token reads.
    int32_t next_state() const { return first_position - 1 + num_computed; }
  };
  // A query that is being answered.
  struct Active {
    RequestId id;
    int32_t max_drafts = 0;  // 0: the request's tokens are computed, but none are drafted
    Record* record = nullptr;
    size_t query = 0;  // index of its query
    size_t num_text_tokens = 0;
    int32_t num_fed = 0;  // tokens to compute before the first draft
    int32_t num_prompt_tokens = 0;
    bool done = false;
  };

  ExecutorDrafter(std::unique_ptr<Executor> executor, Options options);

  // Hidden states that were computed for a request may wait for its next drafts, up to this number.
  static constexpr int32_t kMaxWaitingRows = 16;

  bool reads_states() const { return options_.hidden_rows != nullptr; }
  void follow(std::span<const HiddenText> texts);
  Record& record_of(const HiddenText& text);
  bool place(const HiddenText& text, Record& record);
  void take_text(std::span<const TokenId> text, Record& record) const;
  void add_active(const HiddenText& text, Record& record, int32_t max_drafts);
  void drop_used(const Active& active);
  bool reserve(Record& record, int32_t num_tokens);
  bool evict();
  void release(Record& record);
  bool feed();
  void add_to_plan(Active& active, int32_t n, StepPlan& plan);
  void draft_on();
  bool run(StepPlan& plan, std::span<Active*> scheduled);

  const std::unique_ptr<Executor> executor_;
  const Options options_;
  const DraftingCost cost_;
  const KvSpec kv_;
  const int32_t max_model_len_;
  std::unordered_map<RequestId, Record> records_;
  std::vector<BlockId> free_blocks_;
  std::vector<RequestId> dropped_;  // requests that the executor has yet to drop
  std::vector<Active> active_;
  uint64_t num_calls_ = 0;
  uint64_t step_id_ = 0;
};

}  // namespace quire
