// make_pool() turns what users say (a model, a machine, how it is cut, engine settings) into a pool
// of replicas.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine_options.h"
#include "roofline/model/cost_model.h"
#include "roofline/model/memory_model.h"
#include "sim/fleet/fleet.h"

namespace quire::sim {

struct PoolOptions {
  std::string name = "pool";
  Role role = Role::kBoth;
  ModelShape model;
  Hardware hardware;
  Parallelism parallelism;
  CostOptions cost;
  std::shared_ptr<const OperatorTables> tables;  // for Fidelity::kTable
  EngineOptions engine;
  int32_t block_size = 16;             // tokens
  int32_t state_block_size = 512;      // tokens from one snapshot of states to the next
  double memory_utilisation = 0;       // 0: the hardware's
  std::optional<ServerMemory> memory;  // whose reserve beside weights and KV; none: Quire's
  double offload_bytes = 0;            // host memory for evicted KV, per replica; 0: none
  int32_t num_replicas = 1;
  AutoscaleOptions autoscale;
  bool fast_forward = true;
  double draft_acceptance = 0;  // as in ReplicaSpec
  // It drafts, on the same devices, cut by tp where that can be, else whole on each; none: drafts cost
  // nothing but their rows.
  std::optional<ModelShape> draft_model;
  int32_t lora_rank = 0;  // of the adapters that requests ask for; 0: they ask for none
};

// The error says what does not fit or is out of bounds.
Result<PoolSpec> make_pool(const PoolOptions& options);

// Returns what the KV cache of one replica needs, by layers as the engine groups them.
KvSpec kv_spec_of(const ModelShape& model, const MemoryEstimate& memory, int32_t block_size,
                  int32_t state_block_size);

}  // namespace quire::sim
