// PipelineExecutor runs one model in stages of this machine, as one executor (pipeline parallel).
// Each stage has some of the layers, with their part of the KV cache, on threads of its own; as
// many steps are under way as there are stages, so that all of them have work. A stage may be
// several ranks (RankedExecutor). The bits are those of one stage alone (law L4;
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

// As core/executor.h says; one thread at a time.
class PipelineExecutor final : public Executor {
 public:
  // `options` are those of the whole: threads, memory nodes and memory are divided among the
  // stages. kInvalidArgument: so many stages cannot share the model. Other errors are those of
  // RankedExecutor::create().
  static Result<std::unique_ptr<PipelineExecutor>> create(const ModelRunnerOptions& options,
                                                          const PipelineShape& shape);
  // Makes one more with the weights of `first`, as ModelRunner::create_beside() does; `cpus` are
  // those of all stages.
  static Result<std::unique_ptr<PipelineExecutor>> create_beside(const PipelineExecutor& first,
                                                                 const std::vector<int>& cpus = {});
  // Steps that are under way are finished, for nobody.
  ~PipelineExecutor() override;

  // Describes the whole model, and what all stages take in sum.
  const ModelPlan& plan() const { return plan_; }
  int num_stages() const { return static_cast<int>(stages_.size()); }

  ExecutorInfo info() const override { return stages_.back().executor->info(); }
  // Describes the cache of the first rank of every stage together.
  KvSpec kv_spec() const override { return kv_spec_; }
  // Returns what the stage with the least room for blocks has, in bytes of kv_spec()'s.
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
  // This is a step on its way through the stages.
  struct Step {
    uint64_t number = 0;
    StepPlan plan;
    StepResult before;  // tokens of steps that have been collected since the last one
    Arena memory;
    float* hidden = nullptr;  // [max_num_batched_tokens, E] there, between two stages
    Status status;            // of the first stage that failed
    StepResult result;
  };
  // Steps wait here for the one who takes them.
  class Queue {
   public:
    void push(std::unique_ptr<Step> step);
    std::unique_ptr<Step> pop();  // waits; null: it is closed, and empty
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
