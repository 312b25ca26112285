// GpuRankedExecutor runs one model on several GPUs of this machine, as one executor. Its layers may
// be divided among stages (pipeline parallel), and every layer of a stage among ranks (tensor
// parallel). Every rank of every stage is a member: a thread with a GPU, which has the KV cache of
// its part. All members queue a step at the same time and their GPUs wait for each other; as many
// steps are under way as there are stages. All ranks of the last stage sample the same tokens from
// the same logits. The bits are those of one GPU where products do not depend on how many outputs a
// matrix has (law L4; docs/decisions/121-ranks-on-gpus.md,
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
  // The ranks of the first stage, then those of the next; several may be one GPU.
  std::vector<std::unique_ptr<Device>> devices;
  GpuRanksOptions group;
  int num_stages = 1;
  // Other executors, who are yet to take their memory, have the GPUs of these numbers.
  std::vector<int32_t> later_ordinals = {};
};

// As core/executor.h says; one thread at a time.
class GpuRankedExecutor final : public Executor {
 public:
  // `options` are those of the whole: threads are divided among the members. Errors of
  // GpuRunner::create() and GpuMembers::create(), and kInvalidArgument or kUnimplemented where so many
  // ranks or stages cannot share the model.
  static Result<std::unique_ptr<GpuRankedExecutor>> create(const ModelRunnerOptions& options,
                                                           const GpuRunnerOptions& gpu_options,
                                                           RankedGpus gpus);
  ~GpuRankedExecutor() override;

  // Of all members together: the whole model, and what they take in sum.
  const ModelPlan& plan() const { return plan_; }
  const GpuRunner& runner(int member) const { return *runners_[static_cast<size_t>(member)]; }
  GpuMembers& members() { return *members_; }

  ExecutorInfo info() const override { return runners_[sampler_]->info(); }
  // Describes the cache of the first rank of every stage together.
  KvSpec kv_spec() const override { return kv_spec_; }
  // What the member with the least room for blocks has, in bytes of kv_spec()'s.
  int64_t available_kv_bytes() const override;
  bool keeps_blocks_on_host() const override { return true; }
  KvHostMemory host_memory() override;
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  // Of these and collect(), kUnavailable: a GPU is lost or did not come to where others waited;
  // nothing more can be executed.
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
  // `kv_shares` says, by stage, which part it gets of the memory for blocks that somebody asked
  // for; it is empty where there is one stage.
  Status make_runners(const ModelRunnerOptions& options, const GpuRunnerOptions& gpu_options,
                      const std::vector<double>& kv_shares, RankedGpus& gpus);
  void add_up_plans();
  // Calls work(runner, plan) for every member, of whose adapters each gets its part.
  Status run_plan(const StepPlan& plan,
                  const std::function<Status(GpuRunner& runner, const StepPlan& own)>& work);
  // Tells stages before the last what has been sampled since the last plan.
  void relay_tokens(const StepPlan& plan);

  std::unique_ptr<GpuMembers> members_;
  const size_t sampler_;  // the first rank of the last stage, whose results count
  ModelPlan plan_;
  KvSpec kv_spec_;
  std::vector<std::unique_ptr<GpuRunner>> runners_;  // by member
  KvPlan kv_plan_;
  TokenRelay relay_;
  StepResult sampled_;            // what the links of stages borrow until the next plan
  std::deque<uint64_t> relayed_;  // the relay's numbers of steps under way
  StepResult first_result_;
};

}  // namespace quire
