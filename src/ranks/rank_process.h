// Ranks in processes of their own: the first one is an executor to its engine, the others do what it
// says.
//
//   // on rank 0:
//   QUIRE_ASSIGN_OR_RETURN(auto executor, LeadingExecutor::create(options, ranks));
//   // on the others, until the first rank ends or is gone:
//   QUIRE_RETURN_IF_ERROR(follow_first_rank(options, ranks));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/tcp_ranks.h"
#include "core/executor.h"
#include "exec/model_runner.h"

namespace quire {

struct RankProcess {
  int rank = 0;
  int size = 1;
  int num_on_host = 1;  // ranks of this machine, which share its memory and its cores
  std::string address = "127.0.0.1";
  uint16_t port = 29500;
};

// As core/executor.h says.
class LeadingExecutor final : public Executor {
 public:
  // Joins the group, loads this rank's share and waits until the others have loaded theirs.
  static Result<std::unique_ptr<LeadingExecutor>> create(const ModelRunnerOptions& options,
                                                         const RankProcess& process);
  // Tells the others that this is the end.
  ~LeadingExecutor() override;

  // Of the whole model, with this rank's memory.
  const ModelPlan& plan() const { return plan_; }

  ExecutorInfo info() const override { return runner_->info(); }
  KvSpec kv_spec() const override { return runner_->kv_spec(); }
  // What the rank with the least room for blocks has.
  int64_t available_kv_bytes() const override { return available_kv_bytes_; }
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  // kUnavailable: a rank is gone or silent; nothing more can be executed.
  Result<StepResult> execute(const StepPlan& plan) override;
  void discard_kv() override;
  void recycle(StepResult&& result) override { runner_->recycle(std::move(result)); }

 private:
  LeadingExecutor() = default;
  Status hear_ready();
  Status tell_all(uint32_t kind);  // what is in message_

  std::unique_ptr<TcpRanks> ranks_;
  std::unique_ptr<ModelRunner> runner_;
  ModelPlan plan_;
  KvPlan kv_plan_;
  int64_t available_kv_bytes_ = 0;
  StepResult last_;  // ids and tokens of the last step, which the others have not heard of
  std::vector<std::byte> message_;
};

// Ok: the first rank has ended. kUnavailable: it is gone without a word. Other errors as create().
Status follow_first_rank(const ModelRunnerOptions& options, const RankProcess& process);

}  // namespace quire
