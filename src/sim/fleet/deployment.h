// make_pool() turns what users specify (a model, hardware, parallelism, engine settings) into a
// pool of replicas.
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
  int32_t block_size = 16;         // tokens
  int32_t state_block_size = 512;  // tokens between two snapshots of states
  double memory_utilisation = 0;   // 0 means the hardware's default
  // The server whose reserve beside weights and KV is used; none means Quire's.
  std::optional<ServerMemory> memory;
  double offload_bytes = 0;  // host memory for evicted KV, per replica; 0 means none
  int32_t num_replicas = 1;
  AutoscaleOptions autoscale;
  bool fast_forward = true;
  double draft_acceptance = 0;  // as in ReplicaSpec
  // The model that drafts. It runs on the same devices, split by tp if its shape allows it,
  // otherwise whole on each. Without one, drafts cost only their rows.
  std::optional<ModelShape> draft_model;
  int32_t lora_rank = 0;  // of the requests' adapters; 0 means that they use none
};

// Returns an error that says what does not fit or is out of bounds.
Result<PoolSpec> make_pool(const PoolOptions& options);

// Returns the KV cache that one replica needs, by the groups of layers that the engine makes.
KvSpec kv_spec_of(const ModelShape& model, const MemoryEstimate& memory, int32_t block_size,
                  int32_t state_block_size);

}  // namespace quire::sim
