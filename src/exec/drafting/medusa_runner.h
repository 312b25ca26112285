// MedusaRunner runs Medusa's heads as a draft model: an Executor without a KV cache, which reads
// the served model's last hidden state of each request.
#pragma once

#include <memory>
#include <vector>

#include "base/threads/thread_team.h"
#include "core/executor.h"
#include "core/hidden_rows.h"
#include "device/stream.h"
#include "exec/input_batch.h"
#include "exec/logits_stage.h"
#include "exec/model_plan.h"
#include "exec/request_table.h"
#include "models/drafting/medusa_checkpoint.h"
#include "nn/drafting/medusa_heads.h"
#include "tensor/arena.h"
#include "weights/weight_packing.h"

namespace quire {

// It runs on CPUs only. One thread at a time uses it, in the order that core/executor.h prescribes.
class MedusaRunner final : public Executor {
 public:
  // `options.files` are the files of the heads. The hidden states that they read come from the
  // model `served`, through options.hidden_rows.
  static Result<std::unique_ptr<MedusaRunner>> create(ModelRunnerOptions options,
                                                      const ModelConfig& served);

  int32_t num_heads() const { return static_cast<int32_t>(checkpoint_.spec.num_heads); }

  ExecutorInfo info() const override;
  KvSpec kv_spec() const override { return {}; }
  int64_t available_kv_bytes() const override { return 0; }
  Status initialize(const KvPlan&) override { return {}; }
  Status warm_up() override;
  Result<StepResult> execute(const StepPlan& plan) override;

 private:
  // A row of logits that a step wants: which hidden state it reads, and which head computes it.
  struct Place {
    RequestId id;
    int32_t position = 0;  // in the text, of the token whose state is read
    int32_t head = 0;
  };

  MedusaRunner(ModelRunnerOptions options, ThreadTeam team, Isa isa, MedusaCheckpoint checkpoint,
               int64_t vocab_size, int64_t max_model_len);
  Status load();
  void find_places();
  void compute(std::span<const int32_t> tokens, float* out);

  const ModelRunnerOptions options_;
  ThreadTeam team_;
  HostStream stream_;
  HostPacking packing_;
  const MedusaCheckpoint checkpoint_;
  const int64_t vocab_size_;
  const DecoderLimits limits_;
  Arena weight_arena_, workspace_arena_;
  std::unique_ptr<MedusaHeads> heads_;
  RequestTable requests_;
  InputBatch batch_;
  std::unique_ptr<LogitsStage> logits_;
  std::vector<Place> places_;    // by token of the batch
  float* states_ = nullptr;      // [max_logit_rows, E]
  float* few_logits_ = nullptr;  // [max_logit_rows, num_logits]
};

}  // namespace quire
