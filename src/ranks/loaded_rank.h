// LoadedRank is a process's part of a model: its connections to the other ranks and its share of
// its stage's layers. It passes hidden states from stage to stage.
#pragma once

#include <memory>
#include <mutex>

#include "comm/process_ranks.h"
#include "comm/rank_broadcast.h"
#include "exec/model_runner.h"
#include "ranks/rank_process.h"

namespace quire {

// Kinds of the frames that linked ranks send each other.
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
  // Joins the group and loads the share. kInvalidArgument, kUnimplemented: the model cannot be
  // divided among so many ranks and stages.
  static Result<std::unique_ptr<LoadedRank>> load(const ModelRunnerOptions& whole,
                                                  const RankProcess& process);

  RankLinks& links() { return *links_; }
  const RankLinks& links() const { return *links_; }
  ModelRunner& runner() { return *runner_; }
  const ModelRunner& runner() const { return *runner_; }
  const RankProcess& process() const { return process_; }
  // Describes one cache with the blocks of all layers, of the size that the first rank of each
  // stage has.
  const KvSpec& kv_spec() const { return kv_spec_; }
  // Returns this rank's memory for blocks, converted to bytes of kv_spec()'s blocks.
  int64_t available_kv_bytes() const;

  // Runs a step: receives hidden states from the stage before, runs this rank's layers, and sends
  // the result to the next stage. If a stage before failed, the step is run anyway, because all
  // stages must do the drops and copies of its plan. Returns the step's first error in this stage
  // and those before it. kUnavailable: ranks are lost.
  Result<StepResult> run(const StepPlan& plan);

  // Carries the first rank's messages to all others.
  RankBroadcast& broadcast() { return *broadcast_; }
  // Sends a frame to, or receives one from, a single rank, over links().control(). They wait as
  // long as both ranks live. receive() returns an error for a frame of another kind. Any thread may
  // send; only one at a time may receive.
  Status send(int other, RankFrame kind, std::span<const std::byte> payload);
  Status receive(int other, RankFrame kind, Frame& frame);

 private:
  LoadedRank(const RankProcess& process, KvSpec kv_spec)
      : process_(process), kv_spec_(std::move(kv_spec)) {}
  // What the stages before reported about the step.
  struct Upstream {
    Status status;
    StepTimings timings;
  };
  Result<Upstream> receive_hidden(const StepPlan& plan);
  Status send_hidden(const StepPlan& plan, const Upstream& upstream);
  size_t hidden_bytes(const StepPlan& plan) const;
  // If `status` is not ok, ends the links and returns the reason why ranks are lost.
  Status lost(int other, const Status& status);

  RankProcess process_;
  KvSpec kv_spec_;
  std::unique_ptr<RankLinks> links_;
  std::unique_ptr<RankBroadcast> broadcast_;
  std::unique_ptr<RankGroup> group_;  // the ranks of this stage; null if it has one rank
  std::unique_ptr<ModelRunner> runner_;
  Frame frame_;
  std::vector<std::byte> message_;
  std::mutex sending_;
};

}  // namespace quire
