// What a ModelRunner takes, by arithmetic: weights, workspace, and what is left for KV.
#pragma once

#include "base/result.h"
#include "device/stream.h"
#include "exec/model_loading.h"
#include "exec/model_plan.h"
#include "nn/weights/decoder_weights.h"
#include "weights/weight_packing.h"

namespace quire {

// Fills plan.memory, but for `vision`, which is there, and what else of the plan depends on how the
// weights are packed. kResourceExhausted: check_memory().
Status plan_memory(const ModelRunnerOptions& options, const ModelLoading& loading,
                   const DecoderWeights& weights, const WeightPacking& packing,
                   const HostStream& stream, ModelPlan& plan);

}  // namespace quire
