// ModelRunner is the Executor that runs a model on this machine: StepPlan -> flat batch -> one
// forward pass -> logits of the sampled rows -> tokens. It owns the weights, the KV memory, the
// workspace and the compute threads; their sizes are planned by arithmetic and they are allocated
// once. A request's tokens and logprobs are the same bits whatever else is in the batch, however
// its prompt is cut, and on any number of threads (law L4).
//
//   QUIRE_ASSIGN_OR_RETURN(auto runner, ModelRunner::create({.files = files, .max_num_seqs = 64}));
//   fmt::print("{}", runner->plan().memory.table());
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "core/executor.h"
#include "device/stream.h"
#include "exec/alignment/token_alignment.h"
#include "exec/balancing/expert_balancer.h"
#include "exec/hidden/hidden_stages.h"
#include "exec/input_batch.h"
#include "exec/kv/kv_pools.h"
#include "exec/loaded_adapter.h"
#include "exec/logits_stage.h"
#include "exec/media/media_stage.h"
#include "exec/model_loading.h"
#include "exec/model_plan.h"
#include "exec/pooling_stage.h"
#include "exec/request_table.h"
#include "exec/sources/source_stage.h"
#include "nn/decoder/decoder.h"
#include "nn/rank_exchange.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"

namespace quire {

// One thread at a time calls it, in the order of core/executor.h.
class ModelRunner final : public Executor {
 public:
  // Reads the configuration, checks every tensor and plans memory. It reads no weights and
  // allocates nothing large.
  static Result<ModelPlan> plan_only(const ModelRunnerOptions& options);

  // As plan_only(), and then loads the model. Errors are one line that names the file, key or
  // tensor.
  static Result<std::unique_ptr<ModelRunner>> create(ModelRunnerOptions options);

  // Makes another runner that uses the weights of `first` without loading them again and has
  // everything else of its own, so that both can run at once; options.num_replicas counts these
  // runners. `cpus` are the new runner's ModelRunnerOptions::cpus, and `group` is that of a rank.
  static Result<std::unique_ptr<ModelRunner>> create_beside(const ModelRunner& first,
                                                            const std::vector<int>& cpus = {},
                                                            RankGroup* group = nullptr);

  const ModelPlan& plan() const { return plan_; }

  ExecutorInfo info() const override;
  KvSpec kv_spec() const override { return plan_.kv.spec; }
  int64_t available_kv_bytes() const override { return plan_.memory.kv_cache; }
  bool keeps_blocks_on_host() const override { return options_.host_kv_bytes > 0; }
  KvHostMemory host_memory() override;
  // As KvPools::offer_of_host_blocks().
  SharedMemoryOffer offer_of_host_blocks(KvPool pool) const {
    return kv_.offer_of_host_blocks(pool);
  }
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  // A rank other than the first computes its share and samples nothing: its results have no tokens.
  Result<StepResult> execute(const StepPlan& plan) override;
  // The hidden states [max_num_batched_tokens, E] of a stage of a pipeline. execute() reads its
  // input there, except on the first stage, and leaves its output there.
  float* hidden() { return decoder_->hidden(); }
  // Adopts the tokens that the first rank has sampled in a step that this rank has computed as
  // well.
  void follow(const StepResult& first);
  void discard_kv() override { kv_.discard(); }
  void recycle(StepResult&& result) override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override;

 private:
  ModelRunner(ModelRunnerOptions options, ThreadTeam team, Isa isa);
  // Reads the configuration and plans specs, slots, tensors and memory.
  Status prepare(ModelLoading& loading);
  Status load(ModelLoading loading);
  // Creates everything but the weights.
  Status make_workspace();
  void make_logits_stage();
  void encode_media(const StepPlan& plan, ForwardInputs& inputs, StepResult& result);

  ModelRunnerOptions options_;
  ThreadTeam team_;
  HostStream stream_;
  HostPacking packing_;
  ModelPlan plan_;
  std::shared_ptr<LoadedModel> model_;  // shared with the runners made by create_beside()
  Arena workspace_arena_;
  KvPools kv_;
  std::optional<RankExchange> ranks_;  // set for one rank among several
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<ExpertBalancer> balancer_;  // set for a rank whose experts are placed by load
  std::unique_ptr<InputBatch> batch_;
  std::unique_ptr<LogitsStage> logits_;
  std::unique_ptr<PoolingStage> pooling_;  // set for models that pool
  std::unique_ptr<MediaStage> media_;      // set for models that read images
  // Set for models with cross-attention to an encoder's output.
  std::unique_ptr<SourceStage> source_;
  // Set for models whose attention gives the times of words.
  std::optional<TokenAlignment> alignment_;
  std::optional<HiddenStages> hidden_;
  std::vector<HiddenText> texts_;  // of the last step, kept for its capacity
  std::unique_ptr<RequestTable> requests_;
  std::shared_ptr<AdaptersInUse> adapters_in_use_ = std::make_shared<AdaptersInUse>();
  StepResult spare_;  // of an earlier step, kept for the memory of its lists
};

}  // namespace quire
