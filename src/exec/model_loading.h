// The first steps of every runner of a model: from options to a checked plan and to weights in
// memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "exec/loaded_adapter.h"
#include "exec/model_plan.h"
#include "nn/adapters/lora_options.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// Starts the compute threads that the options ask for.
Result<ThreadTeam> start_team(const ModelRunnerOptions& options);

struct ModelLoading {
  std::optional<TensorSource> source;                // none: the weights are random
  std::vector<std::unique_ptr<std::byte[]>> memory;  // of tensors that lie in no file
  LoadPlan checkpoint;
  // Returns how many bytes of the backend's memory the weights take.
  int64_t weight_bytes(const DecoderWeights& weights, const WeightPacking& packing) const;
};

// A model in memory, which several runners may read.
struct LoadedModel {
  ModelPlan plan;  // of the first runner; the weights borrow its spec
  std::unique_ptr<DecoderWeights> weights;
  Arena arena;
};

// Reads the configuration and checks every tensor. It fills `plan` except for its memory, then
// `weights`, which borrows plan.staged, then `loading`, which borrows the weights; so none of the
// three may move afterwards. `packing`, which `loading` borrows as well, decides how the weights
// are stored.
Status prepare_model(const ModelRunnerOptions& options, WeightPacking& packing, ModelPlan& plan,
                     std::unique_ptr<DecoderWeights>& weights, ModelLoading& loading);

// Returns how the weights of such a plan are stored.
WeightOptions weight_options(const ModelRunnerOptions& options, const ModelPlan& plan);

// Packs the weights into `arena`, which has weight_bytes(). `team` may be null.
Status load_weights(WeightPacking& packing, ThreadTeam* team, const ModelRunnerOptions& options,
                    const ModelLoading& loading, const DecoderWeights& weights, Arena& arena);

struct AdapterReading {
  const ModelRunnerOptions& options;
  const ModelPlan& plan;
  const DecoderWeights& weights;
  LoraOptions lora;  // without the fields that the rest of this struct determines
  std::shared_ptr<AdaptersInUse> in_use;
};
// Reads an adapter into host memory, for every runner's load_adapter(), with that method's errors.
Result<std::shared_ptr<LoadedAdapter>> read_adapter(const std::string& name,
                                                    const std::string& path,
                                                    const AdapterReading& reading);

}  // namespace quire
