// A ModelSystem is a small model over the real scheduler and KV manager, for tests of requests with
// media.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/model_runner.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"

namespace quire::test {

inline constexpr int32_t kMaxModelLen = 160;

struct Output {
  std::vector<TokenId> token_ids;
  std::vector<float> logprobs;
  PooledOutput pooled = {};
  RequestStatus status = RequestStatus::kWaiting;
};

struct RunStats {
  int64_t num_preemptions = 0;
  int64_t prefix_hits = 0;
  int64_t num_encoded = 0;
};

class ModelSystem {
 public:
  explicit ModelSystem(std::shared_ptr<const ModelFiles> files,
                       const std::string& dtype = "float32", int threads = 1)
      : ModelSystem(options_of(std::move(files), dtype, threads)) {}
  explicit ModelSystem(const ModelRunnerOptions& options) {
    auto runner = ModelRunner::create(options);
    QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
    runner_ = std::move(*runner);
    start(*runner_);
  }
  // Uses another executor.
  explicit ModelSystem(std::unique_ptr<Executor> other) : other_(std::move(other)) {
    start(*other_);
  }

  ModelRunner& runner() { return *runner_; }

  // Runs the requests one after the other, or all at once.
  std::map<uint64_t, Output> run(const std::vector<Request>& requests, SchedulerConfig config,
                                 int32_t num_blocks, bool together, RunStats* stats = nullptr) {
    const ExecutorInfo info = executor_->info();
    config.max_model_len = info.max_model_len;
    config.media_is_bidirectional = info.media.is_bidirectional;
    if (config.encoder_cache_tokens == 0)
      config.encoder_cache_tokens = info.media.max_cached_embeddings;
    KvManager kv(executor_->kv_spec(), num_blocks,
                 {.max_sequence_tokens = config.max_model_len,
                  .max_step_tokens = config.max_num_batched_tokens,
                  .num_state_blocks = kMaxBlocks});
    Scheduler scheduler(config, kv);
    std::map<uint64_t, Output> outputs;
    size_t added = 0;
    int64_t num_encoded = 0;
    for (int64_t step = 0; added < requests.size() || scheduler.has_unfinished(); ++step) {
      QUIRE_CHECK(step < 20000, "the run does not end");
      while (added < requests.size() && (together || !scheduler.has_unfinished())) {
        const Status status = scheduler.add(requests[added++], step);
        QUIRE_CHECK(status.ok(), "{}", status.message());
      }
      const StepPlan& plan = scheduler.schedule(step);
      num_encoded += std::ssize(plan.media_inputs);
      const Result<StepResult> result = executor_->execute(plan);
      QUIRE_CHECK(result.ok(), "{}", result.status().message());
      for (const RequestUpdate& update : scheduler.update(*result, step)) {
        QUIRE_CHECK(update.status.ok(), "{}", update.status.message());
        Output& output = outputs[update.id.value];
        for (const TokenId id : update.new_token_ids) output.token_ids.push_back(id);
        for (const TokenLogprobs& one : update.result->logprobs)
          output.logprobs.push_back(one.logprob);
        if (!update.result->pooled.values.empty()) output.pooled = update.result->pooled;
        if (update.finished) output.status = *update.finished;
      }
    }
    QUIRE_CHECK(executor_->execute(scheduler.schedule(1 << 30)).ok());
    if (stats != nullptr)
      *stats = {scheduler.stats().num_preemptions, scheduler.stats().prefix_hits, num_encoded};
    return outputs;
  }

  static ModelRunnerOptions options_of(std::shared_ptr<const ModelFiles> files,
                                       const std::string& dtype, int threads,
                                       int64_t max_model_len = kMaxModelLen) {
    ModelRunnerOptions options;
    options.files = std::move(files);
    options.dtype = dtype;
    options.block_size = 8;
    options.state_block_size = 16;
    options.max_model_len = max_model_len;
    options.kv_cache_memory_bytes = int64_t{8} << 20;
    options.threads = threads;
    options.max_num_batched_tokens = 256;
    options.max_num_seqs = 16;
    return options;
  }

 private:
  static constexpr int32_t kMaxBlocks = 400;

  void start(Executor& executor) {
    executor_ = &executor;
    QUIRE_CHECK(
        executor.initialize({.num_blocks = kMaxBlocks, .num_state_blocks = kMaxBlocks}).ok());
  }

  std::unique_ptr<ModelRunner> runner_;  // used unless other_ is set
  std::unique_ptr<Executor> other_;
  Executor* executor_ = nullptr;
};

inline void expect_same(const std::map<uint64_t, Output>& got,
                        const std::map<uint64_t, Output>& alone) {
  ASSERT_EQ(got.size(), alone.size());
  for (const auto& [id, output] : alone) {
    EXPECT_EQ(got.at(id).token_ids, output.token_ids) << "request " << id;
    EXPECT_EQ(got.at(id).logprobs, output.logprobs) << "request " << id;  // bit for bit
    EXPECT_EQ(got.at(id).pooled.values, output.pooled.values) << "request " << id;
  }
}

}  // namespace quire::test
