// LeadingExecutor runs one model on ranks that are processes, as one executor to the engine of the
// first of them.
//
//   QUIRE_ASSIGN_OR_RETURN(auto executor, LeadingExecutor::create(options, {.size = 2}));
//
// The ranks are those of one stage (tensor parallel) or of several (pipeline parallel). With
// several, as many steps are under way as there are stages. The results are bit for bit those of
// one rank alone (law L4; docs/decisions/062-stages-in-processes.md).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/executor.h"
#include "ranks/host_blocks/others_host_blocks.h"
#include "ranks/loaded_rank.h"
#include "ranks/rank_adapters.h"
#include "ranks/rank_process.h"
#include "ranks/token_relay.h"

namespace quire {

// Its methods are described in core/executor.h.
class LeadingExecutor final : public Executor {
 public:
  // Joins the group, loads this rank's share and waits until the others have loaded theirs.
  static Result<std::unique_ptr<LeadingExecutor>> create(const ModelRunnerOptions& options,
                                                         const RankProcess& process);
  // Tells the other ranks to end.
  ~LeadingExecutor() override;

  // Describes the whole model, with this rank's memory.
  const ModelPlan& plan() const { return plan_; }

  ExecutorInfo info() const override { return rank_->runner().info(); }
  KvSpec kv_spec() const override { return rank_->kv_spec(); }
  // Returns the memory of the rank with the least room for blocks.
  int64_t available_kv_bytes() const override { return available_kv_bytes_; }
  bool keeps_blocks_on_host() const override { return rank_->runner().keeps_blocks_on_host(); }
  KvHostMemory host_memory() override;
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  int32_t max_steps_in_flight() const override { return rank_->process().num_stages; }
  bool feeds_its_samples() const override { return max_steps_in_flight() == 1; }
  // execute(), submit() and collect() return kUnavailable when a rank is gone or silent; nothing
  // more can be executed then.
  Result<StepResult> execute(const StepPlan& plan) override;
  Status submit(const StepPlan& plan) override;
  // Runs the last stage of the oldest step on this rank.
  Result<StepResult> collect() override;
  Status health() const override { return rank_->links().status(); }
  void discard_kv() override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override {
    return adapters_->load(name, path);
  }
  void recycle(StepResult&& result) override { rank_->runner().recycle(std::move(result)); }

 private:
  struct Step {
    uint64_t number = 0;
    StepPlan plan;
  };

  LeadingExecutor() = default;
  Status hear_ready();
  Status hear_done(int other);
  KvLayout layout_of_rank(int rank) const;
  Status tell_all(RankFrame kind);  // sends message_
  // Sends the step to the other ranks and returns its number.
  Result<uint64_t> tell_step(const StepPlan& plan);
  Result<StepResult> finish(uint64_t number, const StepPlan& plan);

  std::unique_ptr<LoadedRank> rank_;
  ModelPlan plan_;
  KvPlan kv_plan_;
  std::unique_ptr<OthersHostBlocks> others_blocks_;
  int64_t available_kv_bytes_ = 0;
  std::unique_ptr<LeadingAdapters> adapters_;
  TokenRelay relay_;
  std::deque<Step> under_way_;  // oldest first
  std::vector<std::byte> message_;
};

}  // namespace quire
