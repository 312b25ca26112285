// ModelRunner is the Executor that runs a model on this machine: StepPlan -> flat batch -> one
// forward pass -> logits of the sampled rows -> tokens. It owns the weights, the KV memory, the
// workspace and the compute threads; all of it is planned by arithmetic and allocated once. A
// request's tokens and logprobs are the same bits whatever else is in the batch, however its prompt
// was cut, and on any number of threads (law L4).
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
  // Reads the configuration, checks every tensor, plans memory: no weight is read, nothing large
  // allocated.
  static Result<ModelPlan> plan_only(const ModelRunnerOptions& options);

  // As plan_only(), then loads. Errors are one line that names the file, key or tensor.
  static Result<std::unique_ptr<ModelRunner>> create(ModelRunnerOptions options);

  // Makes one more runner with the weights of `first`, which are not loaded again, and all else of
  // its own, so that both can run at once; options.num_replicas counts them. `cpus` are the new
  // runner's ModelRunnerOptions::cpus, and `group` is that of a rank.
  static Result<std::unique_ptr<ModelRunner>> create_beside(const ModelRunner& first,
                                                            const std::vector<int>& cpus = {},
                                                            RankGroup* group = nullptr);

  const ModelPlan& plan() const { return plan_; }

  ExecutorInfo info() const override;
  KvSpec kv_spec() const override { return plan_.kv.spec; }
  int64_t available_kv_bytes() const override { return plan_.memory.kv_cache; }
  bool keeps_blocks_on_host() const override { return options_.host_kv_bytes > 0; }
  KvHostMemory host_memory() override;
  // KvPools::offer_of_host_blocks().
  SharedMemoryOffer offer_of_host_blocks(KvPool pool) const {
    return kv_.offer_of_host_blocks(pool);
  }
  Status initialize(const KvPlan& plan) override;
  Status warm_up() override;
  // A rank behind the first computes its share and samples nothing: its results bring no tokens.
  Result<StepResult> execute(const StepPlan& plan) override;
  // A stage of a pipeline goes on from these [max_num_batched_tokens, E] in execute(), unless it is
  // the first one, and leaves here what it has come to.
  float* hidden() { return decoder_->hidden(); }
  // Takes over the tokens that the first rank has sampled in a step that this one has computed.
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
  // Makes everything but the weights.
  Status make_workspace();
  void make_logits_stage();
  void encode_media(const StepPlan& plan, ForwardInputs& inputs, StepResult& result);

  ModelRunnerOptions options_;
  ThreadTeam team_;
  HostStream stream_;
  HostPacking packing_;
  ModelPlan plan_;
  std::shared_ptr<LoadedModel> model_;  // shared with runners beside this one
  Arena workspace_arena_;
  KvPools kv_;
  std::optional<RankExchange> ranks_;  // of one rank among several
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<ExpertBalancer> balancer_;  // of a rank whose experts are dealt out by load
  std::unique_ptr<InputBatch> batch_;
  std::unique_ptr<LogitsStage> logits_;
  std::unique_ptr<PoolingStage> pooling_;    // of models for pooling
  std::unique_ptr<MediaStage> media_;        // of models that read images
  std::unique_ptr<SourceStage> source_;      // of models that look at what an encoder makes
  std::optional<TokenAlignment> alignment_;  // of those whose attention says when words are said
  std::optional<HiddenStages> hidden_;
  std::vector<HiddenText> texts_;  // of the last step, kept for its capacity
  std::unique_ptr<RequestTable> requests_;
  std::shared_ptr<AdaptersInUse> adapters_in_use_ = std::make_shared<AdaptersInUse>();
  StepResult spare_;  // of an earlier step, for its memory; nothing in it but the lists
};

}  // namespace quire
