// PipelineExecutor runs one model in stages on this machine, as one executor (pipeline parallel).
// Each stage has some of the layers, with their part of the KV cache, and threads of its own. As
// many steps are under way as there are stages, so that every stage has work. A stage may consist
// of several ranks (RankedExecutor). The results are bit for bit those of one stage alone (law L4;
// docs/decisions/039-pipeline.md).
//
//   QUIRE_ASSIGN_OR_RETURN(auto executor, PipelineExecutor::create(options, {.num_stages = 2}));
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/executor.h"
#include "exec/model_runner.h"
#include "ranks/ranked_executor.h"
#include "ranks/token_relay.h"
#include "tensor/arena.h"

namespace quire {

struct PipelineShape {
  int num_stages = 1;
  int num_ranks = 1;  // of each stage
};

// Its methods are described in core/executor.h. One thread at a time may use it.
class PipelineExecutor final : public Executor {
 public:
  // `options` describe the whole: threads, memory nodes and memory are divided among the stages.
  // kInvalidArgument: the model cannot be divided into so many stages. Other errors are those of
  // RankedExecutor::create().
  static Result<std::unique_ptr<PipelineExecutor>> create(const ModelRunnerOptions& options,
                                                          const PipelineShape& shape);
  // Makes another executor that uses the weights of `first`, as ModelRunner::create_beside() does.
  // `cpus` are the CPUs for all stages.
  static Result<std::unique_ptr<PipelineExecutor>> create_beside(const PipelineExecutor& first,
                                                                 const std::vector<int>& cpus = {});
  // Finishes the steps that are under way; their results are lost.
  ~PipelineExecutor() override;

  // Describes the whole model. Memory is the sum over all stages.
  const ModelPlan& plan() const { return plan_; }
  int num_stages() const { return static_cast<int>(stages_.size()); }

  ExecutorInfo info() const override { return stages_.back().executor->info(); }
  // Describes one cache with the blocks of all layers, of the size that the first rank of each
  // stage has.
  KvSpec kv_spec() const override { return kv_spec_; }
  // Returns the memory of the stage with the least room for blocks, converted to bytes of
  // kv_spec()'s blocks.
  int64_t available_kv_bytes() const override;
  bool keeps_blocks_on_host() const override {
    return stages_.front().executor->keeps_blocks_on_host();
  }
  KvHostMemory host_memory() override;
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  Result<StepResult> execute(const StepPlan& plan) override;
  int32_t max_steps_in_flight() const override { return num_stages(); }
  bool feeds_its_samples() const override { return false; }
  Status submit(const StepPlan& plan) override;
  Result<StepResult> collect() override;
  void discard_kv() override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override;

 private:
  // A step on its way through the stages.
  struct Step {
    uint64_t number = 0;
    StepPlan plan;
    StepResult before;  // tokens of the steps that were collected since the last submit()
    Arena memory;
    float* hidden = nullptr;  // in `memory`, between two stages: [max_num_batched_tokens, E]
    Status status;            // the error of the first stage that failed
    StepResult result;
  };
  // Steps that wait for a stage, or for collect().
  class Queue {
   public:
    void push(std::unique_ptr<Step> step);
    std::unique_ptr<Step> pop();  // blocks; null: the queue is closed and empty
    void close();

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<Step>> steps_;
    bool is_closed_ = false;
  };
  struct Stage {
    std::unique_ptr<RankedExecutor> executor;
    std::unique_ptr<Queue> inbox;
    std::thread thread;
  };

  PipelineExecutor() = default;
  Status start(std::vector<std::unique_ptr<RankedExecutor>> executors);
  void run_stage(size_t index);
  void run_step(size_t index, Step& step);

  ModelPlan plan_;
  KvSpec kv_spec_;
  std::vector<Stage> stages_;
  Queue done_;
  KvPlan kv_plan_;
  std::vector<std::unique_ptr<Step>> spare_;
  TokenRelay relay_;
  int num_under_way_ = 0;
};

}  // namespace quire
