// LoadedRank is a process's part of a model: its connections to the other ranks, its share of its
// stage's layers, and the way of hidden states from stage to stage.
#pragma once

#include <memory>
#include <mutex>

#include "comm/process_ranks.h"
#include "comm/rank_broadcast.h"
#include "exec/model_runner.h"
#include "ranks/rank_process.h"

namespace quire {

// Ranks send each other frames of these kinds once they are linked.
enum class RankFrame : uint32_t {
  kReady = 16,
  kInitialize = 17,
  kStep = 18,
  kDiscardKv = 19,
  kEnd = 20,
  kDone = 21,
  kHidden = 22,
  kFailed = 23,
  kLoadAdapter = 24,
  kAdapter = 25,
  kHostBlocks = 26,
};

// One thread at a time may use it.
class LoadedRank {
 public:
  // Joins the group and loads. kInvalidArgument, kUnimplemented: so many ranks and stages cannot share
  // the model.
  static Result<std::unique_ptr<LoadedRank>> load(const ModelRunnerOptions& whole,
                                                  const RankProcess& process);

  RankLinks& links() { return *links_; }
  const RankLinks& links() const { return *links_; }
  ModelRunner& runner() { return *runner_; }
  const ModelRunner& runner() const { return *runner_; }
  const RankProcess& process() const { return process_; }
  // Describes the cache of the first rank of every stage together.
  const KvSpec& kv_spec() const { return kv_spec_; }
  // What this rank has for blocks of kv_spec(), in bytes of these.
  int64_t available_kv_bytes() const;

  // Runs a step, which goes on from what the stage before has made of it, and passes on what it
  // comes to. A step that failed in a stage before runs too, because what its plan drops and copies
  // holds for all stages. Every rank says of it what the first one of them said. kUnavailable:
  // ranks are lost.
  Result<StepResult> run(const StepPlan& plan);

  // What the first rank says to all others.
  RankBroadcast& broadcast() { return *broadcast_; }
  // To or from the first rank alone, as links().control() has it. Waits as long as both live. A frame of
  // another kind is an error. Any thread may send, one at a time receives.
  Status send(int other, RankFrame kind, std::span<const std::byte> payload);
  Status receive(int other, RankFrame kind, Frame& frame);

 private:
  LoadedRank(const RankProcess& process, KvSpec kv_spec)
      : process_(process), kv_spec_(std::move(kv_spec)) {}
  // What the stages before have said of the step.
  struct Upstream {
    Status status;
    StepTimings timings;
  };
  Result<Upstream> receive_hidden(const StepPlan& plan);
  Status send_hidden(const StepPlan& plan, const Upstream& upstream);
  size_t hidden_bytes(const StepPlan& plan) const;
  // Returns the reason why ranks are lost, where `status` is not ok.
  Status lost(int other, const Status& status);

  RankProcess process_;
  KvSpec kv_spec_;
  std::unique_ptr<RankLinks> links_;
  std::unique_ptr<RankBroadcast> broadcast_;
  std::unique_ptr<RankGroup> group_;  // of the ranks of this stage, where there are several
  std::unique_ptr<ModelRunner> runner_;
  Frame frame_;
  std::vector<std::byte> message_;
  std::mutex sending_;
};

}  // namespace quire
