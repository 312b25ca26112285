// Computes the memory of a ModelRunner: weights, workspace, and what is left for KV blocks.
#pragma once

#include "base/result.h"
#include "device/stream.h"
#include "exec/model_loading.h"
#include "exec/model_plan.h"
#include "kernels/api/lora.h"
#include "nn/weights/decoder_weights.h"
#include "weights/weight_packing.h"

namespace quire {

// Fills plan.memory except for `vision`, which is set already, and the other fields of the plan
// that depend on how the weights are packed. Fails with the error of check_memory().
Status plan_memory(const ModelRunnerOptions& options, const ModelLoading& loading,
                   const DecoderWeights& weights, const WeightPacking& packing,
                   const HostStream& stream, ModelPlan& plan);

// For plans with adapters: sets their memory and the limits that every batch with adapters keeps
// to.
void plan_adapters(const ModelRunnerOptions& options, const DecoderWeights& weights,
                   const Stream& stream, LoraLayout layout, ModelPlan& plan);

// Returns the memory of the most blocks that all requests can fill at once. More blocks would never
// be needed. Reads plan.memory.kv_bytes_per_token.
int64_t useful_kv_bytes(const ModelPlan& plan);
// Returns how plan.memory.kv_cache is divided among the pools.
KvPlan divided_kv_memory(const ModelPlan& plan);

}  // namespace quire
