// One model on several GPUs of this machine, as one executor (tensor parallel). Every rank is a thread
// with a GPU: it runs the same plan on its share of each layer, with its share of the KV cache, and
// samples the same tokens from the same logits, so that a step's tokens stay where the next one reads
// them. The bits are those of one GPU where products do not depend on how many outputs a matrix has
// (law L4; docs/decisions/121-ranks-on-gpus.md).
//
//   QUIRE_ASSIGN_OR_RETURN(auto executor, GpuRankedExecutor::create({.files = files}, {}, std::move(gpus)));
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/executor.h"
#include "exec/gpu/gpu_runner.h"
#include "exec/gpu/ranks/gpu_ranks.h"
#include "ranks/rank_threads.h"

namespace quire {

struct RankedGpus {
  std::vector<std::unique_ptr<Device>> devices;  // by rank; several may be one GPU
  GpuRanksOptions group;
};

// As core/executor.h says; one thread at a time.
class GpuRankedExecutor final : public Executor {
 public:
  // `options` are those of the whole: threads are divided among the ranks. Errors of
  // GpuRunner::create() and GpuRanks::create(), and kInvalidArgument or kUnimplemented where so many
  // ranks cannot share the model.
  static Result<std::unique_ptr<GpuRankedExecutor>> create(const ModelRunnerOptions& options,
                                                           const GpuRunnerOptions& gpu_options,
                                                           RankedGpus gpus);
  ~GpuRankedExecutor() override;

  // Of all ranks together: the whole model, and what the ranks take in sum.
  const ModelPlan& plan() const { return plan_; }
  int num_ranks() const { return threads_.size(); }
  const GpuRunner& runner(int rank) const { return *runners_[static_cast<size_t>(rank)]; }
  GpuRanks& group(int rank) { return *groups_[static_cast<size_t>(rank)]; }

  ExecutorInfo info() const override { return runners_.front()->info(); }
  KvSpec kv_spec() const override { return runners_.front()->kv_spec(); }
  int64_t available_kv_bytes() const override;
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  // Of these and collect(), kUnavailable: a GPU is lost or did not come to where others waited;
  // nothing more can be executed.
  Result<StepResult> execute(const StepPlan& plan) override;
  int32_t max_steps_in_flight() const override { return runners_.front()->max_steps_in_flight(); }
  Status submit(const StepPlan& plan) override;
  Result<StepResult> collect() override;
  Status health() const override { return groups_.front()->status(); }
  void recycle(StepResult&& result) override { runners_.front()->recycle(std::move(result)); }
  bool work_while_idle() override;
  const GraphCounts* graph_counts() const override { return runners_.front()->graph_counts(); }

 private:
  explicit GpuRankedExecutor(int num_ranks);
  // Calls work(rank) on every rank's thread. An error that not all of them have breaks the group:
  // whoever has none may have queued work that waits for the others.
  Status run(const std::function<Status(int rank)>& work);
  // The same, where work(rank) comes to a step's result: that of the first rank.
  Result<StepResult> run_step(const std::function<Result<StepResult>(GpuRunner&)>& work);
  void add_up_plans();

  ModelPlan plan_;
  std::vector<std::unique_ptr<GpuRanks>> groups_;  // by rank
  std::vector<std::unique_ptr<GpuRunner>> runners_;
  std::vector<Status> statuses_;
  KvPlan kv_plan_;
  StepResult first_result_;
  RankThreads threads_;  // ends before what it works on
};

}  // namespace quire
