// The memory that serving a model takes, computed by arithmetic before anything is allocated (law
// L3).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "core/kv_spec.h"
#include "nn/weights/matrix_bytes.h"

namespace quire {

// All sizes are bytes unless they say otherwise.
struct MemoryPlan {
  int64_t weights = 0;
  MatrixBytes matrices;  // those of the weights that a step reads, without embeddings
  int64_t mapped_tables =
      0;                 // embeddings read from the mapped checkpoint: page cache, not allocated
  int64_t adapters = 0;  // all that may be loaded at once
  // The weights and workspace of an encoder, and the outputs of it that are kept for images,
  // recordings or texts.
  int64_t vision = 0;
  int64_t activations = 0;
  int64_t linear_workspace = 0;
  int64_t attention_workspace = 0;
  int64_t hidden_rows = 0;  // of a step: what a draft model reads, or another stage's GPU sends
  int64_t logits = 0;
  int64_t moving_experts = 0;  // experts that were read, beside those that they replace
  int64_t graphs = 0;          // captured graphs of a GPU
  int64_t batch = 0;           // ids, positions, block tables of one step
  int64_t kv_cache = 0;        // for KV blocks: what is left, or what was asked for
  int64_t host_kv = 0;         // copies of KV blocks on their way to and from files
  int64_t block_bytes = 0;
  KvSpec kv_spec;                   // the layout of the blocks
  KvPlan kv_plan;                   // how kv_cache is divided among the pools
  double kv_bytes_per_token = 0.0;  // of one sequence, over all layers

  // Runners that share the weights and have everything else of their own; the sizes here are those
  // of one runner.
  int32_t num_replicas = 1;
  int64_t free_memory = 0;  // of the machine or container when planning, without what others use
  int64_t budget = 0;       // the usable part of free_memory; 0: the KV cache has a fixed size

  int64_t workspace() const {
    return activations + linear_workspace + attention_workspace + hidden_rows + logits +
           moving_experts + graphs + batch;
  }
  // Returns the bytes of all replicas together.
  int64_t total() const {
    return weights + adapters + vision + host_kv + num_replicas * (workspace() + kv_cache);
  }
  // Adds the memory of another part of the same model: a rank or a stage.
  void add(const MemoryPlan& part);
  std::string table() const;  // several lines, aligned
};

// Returns the least KV cache with which the model can run at all.
int64_t least_kv_bytes(const MemoryPlan& plan);

// kResourceExhausted: the KV cache would be too small, or the total exceeds the free memory.
Status check_memory(const MemoryPlan& plan);

}  // namespace quire
