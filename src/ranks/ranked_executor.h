// RankedExecutor runs one model on several ranks of this machine, as one executor (tensor
// parallel). Every rank runs the same plan on its share of each layer, with its share of the KV
// cache; the first rank samples. The results are bit for bit those of one rank alone (law L4;
// docs/decisions/035-ranks.md).
//
//   QUIRE_ASSIGN_OR_RETURN(auto executor, RankedExecutor::create({.files = files, .threads = 8}, 2));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/shared_ranks.h"
#include "core/executor.h"
#include "exec/model_runner.h"
#include "ranks/rank_threads.h"

namespace quire {

// Its methods are described in core/executor.h. One thread at a time may use it.
class RankedExecutor final : public Executor {
 public:
  // `options` describe the whole: threads, memory nodes and memory are divided among the ranks.
  // Returns the errors of ModelRunner::create(), and kInvalidArgument or kUnimplemented if the
  // model cannot be divided among so many ranks.
  static Result<std::unique_ptr<RankedExecutor>> create(ModelRunnerOptions options, int num_ranks);

  // Makes another executor that uses the weights of `first`, as ModelRunner::create_beside() does.
  // `cpus` are the CPUs for all ranks.
  static Result<std::unique_ptr<RankedExecutor>> create_beside(const RankedExecutor& first,
                                                               const std::vector<int>& cpus = {});

  // Describes the whole model. Memory is the sum over all ranks.
  const ModelPlan& plan() const { return plan_; }
  int num_ranks() const { return static_cast<int>(runners_.size()); }

  ExecutorInfo info() const override { return runners_.front()->info(); }
  KvSpec kv_spec() const override { return runners_.front()->kv_spec(); }
  int64_t available_kv_bytes() const override;
  bool keeps_blocks_on_host() const override { return runners_.front()->keeps_blocks_on_host(); }
  KvHostMemory host_memory() override;
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  // kUnavailable: a rank did not reach a point where the others waited; nothing more can be
  // executed.
  Result<StepResult> execute(const StepPlan& plan) override { return execute(plan, {}); }
  // The input and output of a stage of a pipeline: a step starts from the hidden states at `in`,
  // which is null for the first stage, and writes its own to `out`, which is null for the last
  // stage.
  struct Hidden {
    const float* in = nullptr;
    float* out = nullptr;
    size_t count = 0;
  };
  Result<StepResult> execute(const StepPlan& plan, const Hidden& hidden);
  // Calls ModelRunner::follow() of every rank.
  void follow(const StepResult& first);
  void discard_kv() override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override;
  void recycle(StepResult&& result) override { runners_.front()->recycle(std::move(result)); }

 private:
  explicit RankedExecutor(int num_ranks) : threads_(num_ranks) {}
  // Makes every rank's runner, on that rank's thread.
  Status make_runners(
      int64_t shared_bytes,
      const std::function<Result<std::unique_ptr<ModelRunner>>(int rank, RankGroup* group)>& make);
  void add_up_plans();

  ModelPlan plan_;
  std::vector<std::unique_ptr<RankGroup>> groups_;  // by rank
  std::vector<std::unique_ptr<ModelRunner>> runners_;
  KvPlan kv_plan_;
  StepResult first_result_;
  RankThreads threads_;  // ends before the members that it uses
};

}  // namespace quire
