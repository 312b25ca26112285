// GpuRankedExecutor runs one model on several GPUs of this machine, as one executor. The layers may
// be divided among stages (pipeline parallel), and every layer of a stage among ranks (tensor
// parallel). Every rank of every stage is a member: a thread with a GPU, which has the KV cache of
// its part. All members queue a step at the same time, and their GPUs wait for each other. As many
// steps are under way as there are stages. All ranks of the last stage sample the same tokens from
// the same logits. The results are bit for bit those of one GPU if products do not depend on how
// many outputs a matrix has (law L4; docs/decisions/121-ranks-on-gpus.md,
// docs/decisions/144-stages-and-engines-of-gpus.md).
//
//   QUIRE_ASSIGN_OR_RETURN(auto executor, GpuRankedExecutor::create({.files = files}, {}, std::move(gpus)));
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/executor.h"
#include "exec/gpu/gpu_runner.h"
#include "ranks/gpu/gpu_members.h"
#include "ranks/token_relay.h"

namespace quire {

struct RankedGpus {
  // The ranks of the first stage, then those of the next. Several entries may be the same GPU.
  std::vector<std::unique_ptr<Device>> devices;
  GpuRanksOptions group;
  int num_stages = 1;
  // The ordinals of GPUs on which other executors will be made later, one for each such executor,
  // so that memory is left for them.
  std::vector<int32_t> later_ordinals = {};
};

// Its methods are described in core/executor.h. One thread at a time may use it.
class GpuRankedExecutor final : public Executor {
 public:
  // `options` describe the whole: threads are divided among the members. Returns the errors of
  // GpuRunner::create() and GpuMembers::create(), and kInvalidArgument or kUnimplemented if the
  // model cannot be divided among so many ranks or stages.
  static Result<std::unique_ptr<GpuRankedExecutor>> create(const ModelRunnerOptions& options,
                                                           const GpuRunnerOptions& gpu_options,
                                                           RankedGpus gpus);
  ~GpuRankedExecutor() override;

  // Describes the whole model. Memory is the sum over all members.
  const ModelPlan& plan() const { return plan_; }
  const GpuRunner& runner(int member) const { return *runners_[static_cast<size_t>(member)]; }
  GpuMembers& members() { return *members_; }

  ExecutorInfo info() const override { return runners_[sampler_]->info(); }
  // Describes one cache with the blocks of all layers, of the size that the first rank of each
  // stage has.
  KvSpec kv_spec() const override { return kv_spec_; }
  // Returns the memory of the member with the least room for blocks, converted to bytes of
  // kv_spec()'s blocks.
  int64_t available_kv_bytes() const override;
  bool keeps_blocks_on_host() const override { return true; }
  KvHostMemory host_memory() override;
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  // execute(), submit() and collect() return kUnavailable when a GPU is lost or did not reach a
  // point where others waited; nothing more can be executed then.
  Result<StepResult> execute(const StepPlan& plan) override;
  int32_t max_steps_in_flight() const override { return runners_.front()->max_steps_in_flight(); }
  bool feeds_its_samples() const override { return members_->num_stages() == 1; }
  Status submit(const StepPlan& plan) override;
  Result<StepResult> collect() override;
  Status health() const override { return members_->health(); }
  void recycle(StepResult&& result) override { runners_[sampler_]->recycle(std::move(result)); }
  bool work_while_idle() override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override;
  const GraphCounts* graph_counts() const override { return runners_.front()->graph_counts(); }

 private:
  explicit GpuRankedExecutor(std::unique_ptr<GpuMembers> members);
  // `kv_shares` is, by stage, its share of the memory for blocks if options set that memory; it is
  // empty if there is one stage.
  Status make_runners(const ModelRunnerOptions& options, const GpuRunnerOptions& gpu_options,
                      const std::vector<double>& kv_shares, RankedGpus& gpus);
  void add_up_plans();
  // Calls work(runner, plan) for every member, with the member's parts of the plan's adapters.
  Status run_plan(const StepPlan& plan,
                  const std::function<Status(GpuRunner& runner, const StepPlan& own)>& work);
  // Passes the tokens that were sampled since the last plan to the stages before the last.
  void relay_tokens(const StepPlan& plan);

  std::unique_ptr<GpuMembers> members_;
  const size_t sampler_;  // the first rank of the last stage, whose results are returned
  ModelPlan plan_;
  KvSpec kv_spec_;
  std::vector<std::unique_ptr<GpuRunner>> runners_;  // by member
  KvPlan kv_plan_;
  TokenRelay relay_;
  StepResult sampled_;            // borrowed by the links of stages until the next plan
  std::deque<uint64_t> relayed_;  // the relay's step numbers of the steps under way
  StepResult first_result_;
};

}  // namespace quire
