// An executor without a model, for tests, benchmarks and demonstrations of everything above
// Executor.
//
// The next token is a hash of the context, so any two runs of a request must agree, whatever
// happens around it. The executor also models KV: every slot of every block holds the fingerprint
// of the prefix that was computed into it. Before it "attends", it reads back, through the block
// tables of the plan, each position that attention would read, and fails the step if one holds
// anything else. So a scheduler or KV bug appears as a violation, at the step that would have given
// a wrong answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/executor.h"

namespace quire {

struct FakeExecutorOptions {
  int32_t vocab_size = 1000;
  int32_t max_model_len = 4096;
  KvSpec kv_spec{.block_size = 16, .groups = {KvGroupSpec{}}, .block_bytes = 4096};
  int64_t available_kv_bytes = int64_t{16} << 20;

  // A step takes step_us + token_us * scheduled tokens, spent in `wait` (default: sleep).
  int64_t step_us = 0;
  int64_t token_us = 0;
  std::function<void(int64_t us)> wait;

  // The most submitted steps. They run only when they are collected, as late as a device may run
  // them.
  int32_t max_steps_in_flight = 1;
  bool feeds_its_samples = true;

  bool keeps_blocks_on_host = false;

  // Whether adapters can be loaded. Any folder name is an adapter, and the name is its content.
  bool takes_adapters = false;

  bool generates = true;
  PoolingInfo pooling;

  // Empty: the device is never lost. Called by any thread.
  std::function<Status()> health;

  // Off: only the plan's arithmetic is checked, and a decode step costs the same at any context
  // length.
  bool verify_kv = true;

  // Returns the next token instead of the hash; nullopt leaves it to the hash. Called by the engine
  // thread.
  std::function<std::optional<TokenId>(std::span<const TokenId> context)> next_token;
  // Failures to inject: fail_step fails a whole step before it changes anything, the other one a
  // request of a step. Called by the engine thread.
  std::function<Status(const StepPlan& plan)> fail_step;
  std::function<Status(RequestId id, uint64_t step_id)> fail_request;
};

// Uses of SamplingParams: seed (unless greedy), min_tokens, allowed_token_ids, logprobs and
// prompt_logprobs; it also follows token masks. The values of logprobs and pooling are made up, but
// equal for equal contexts.
class FakeExecutor final : public Executor {
 public:
  explicit FakeExecutor(FakeExecutorOptions options = {});

  ExecutorInfo info() const override;
  KvSpec kv_spec() const override { return options_.kv_spec; }
  int64_t available_kv_bytes() const override { return options_.available_kv_bytes; }
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override { return {}; }
  Result<StepResult> execute(const StepPlan& plan) override;
  bool keeps_blocks_on_host() const override { return options_.keeps_blocks_on_host; }
  KvHostMemory host_memory() override;
  Status health() const override { return options_.health ? options_.health() : Status(); }
  int32_t max_steps_in_flight() const override { return options_.max_steps_in_flight; }
  bool feeds_its_samples() const override { return options_.feeds_its_samples; }
  Status submit(const StepPlan& plan) override;
  Result<StepResult> collect() override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override;

  // Returns the token mask after `output`; empty: every token is allowed.
  using MaskOf = std::function<std::vector<uint32_t>(std::span<const TokenId> output)>;
  // Returns the output that a request must give when it is alone: up to max_tokens tokens, ended by
  // an EOS or stop id.
  std::vector<TokenId> expected_output(std::span<const TokenId> prompt,
                                       const SamplingParams& params, const MaskOf& mask_of = {},
                                       const Adapter* adapter = nullptr) const;

  // Returns the likeliest tokens after `context`, in the form that a beam gets them.
  TokenLogprobs beam_candidates(std::span<const TokenId> context, int32_t num_top) const;

  // Returns the plans that broke rules, one line each. Any thread may call it.
  std::vector<std::string> violations() const;
  // Returns the token positions run so far. Any thread may call it.
  int64_t num_tokens_run() const { return num_tokens_run_.load(); }

 private:
  struct RequestRecord {
    std::vector<TokenId> token_ids;
    std::vector<uint64_t> prefix_hashes;  // [token_ids.size()], of tokens 0 … i
    // The hash of the prefix without tokens, from the request's adapter.
    uint64_t empty_hash = 0;

    void append(TokenId token_id);
    void resize(size_t num_tokens);
    int32_t num_prompt_tokens = 0;
    RequestKind kind = RequestKind::kGenerate;
    std::shared_ptr<const SamplingParams> params;
    std::shared_ptr<const PoolingParams> pooling;
    std::vector<std::vector<BlockId>> tables;  // [groups][logical index]
    bool failed = false;  // in an earlier step; its results in later steps are errors
  };

  Status apply(const StepPlan& plan);
  Status copy_to_and_from_host(const StepPlan& plan);
  Status check(const ScheduledRequest& scheduled, const StepPlan& plan) const;
  Status write(const ScheduledRequest& scheduled, uint64_t step_id);
  Status read(const ScheduledRequest& scheduled) const;
  Result<size_t> slot(const RequestRecord& record, size_t group, int32_t position) const;
  RequestStepResult run(const ScheduledRequest& scheduled, const StepPlan& plan);
  PooledOutput pool(const RequestRecord& record) const;
  void sample(const ScheduledRequest& scheduled, const StepPlan& plan, RequestRecord& record,
              RequestStepResult& result) const;
  TokenId next_token(std::span<const TokenId> context, uint64_t prefix_hash,
                     int32_t num_output_tokens, const SamplingParams& params,
                     std::span<const uint32_t> mask) const;
  TokenLogprobs candidates_of(uint64_t prefix_hash, int32_t num_top) const;
  TokenLogprobs logprobs_of(TokenId token_id, uint64_t prefix_hash, int32_t num_top) const;
  Status violation(Status status);

  const FakeExecutorOptions options_;
  int32_t num_blocks_ = 0;
  std::vector<uint64_t>
      cells_;  // [blocks * block_size] fingerprint of the prefix, 0: never written
  std::vector<uint64_t> host_cells_;    // the same for host memory
  std::vector<uint64_t> written_step_;  // [blocks * block_size] step_id + 1 of the last write
  std::unordered_map<RequestId, RequestRecord> requests_;
  std::deque<StepPlan> submitted_;
  std::atomic<int64_t> num_tokens_run_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> violations_;
};

}  // namespace quire
