// What a ModelRunner takes, by arithmetic: weights, workspace, and what is left for KV.
#pragma once

#include "base/result.h"
#include "device/stream.h"
#include "exec/model_loading.h"
#include "exec/model_plan.h"
#include "kernels/api/lora.h"
#include "nn/weights/decoder_weights.h"
#include "weights/weight_packing.h"

namespace quire {

// Fills plan.memory, but for `vision`, which is there, and what else of the plan depends on how the
// weights are packed. kResourceExhausted: check_memory().
Status plan_memory(const ModelRunnerOptions& options, const ModelLoading& loading,
                   const DecoderWeights& weights, const WeightPacking& packing,
                   const HostStream& stream, ModelPlan& plan);

// Of plans with adapters: their memory, and what every batch of theirs keeps to.
void plan_adapters(const ModelRunnerOptions& options, const DecoderWeights& weights,
                   const Stream& stream, LoraLayout layout, ModelPlan& plan);

// Memory of more blocks than all requests can fill at once, which would only be written over and
// over, is never needed. Reads plan.memory.kv_bytes_per_token.
int64_t useful_kv_bytes(const ModelPlan& plan);
// How plan.memory.kv_cache is divided among the pools.
KvPlan divided_kv_memory(const ModelPlan& plan);

}  // namespace quire
