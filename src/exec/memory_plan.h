// What serving a model takes, by arithmetic, before anything is allocated (law L3).
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
  MatrixBytes matrices;  // of them what steps read, which no embeddings are
  int64_t mapped_tables =
      0;  // embeddings read where they lie in the checkpoint: page cache, not allocated
  int64_t adapters = 0;  // of all that may be loaded
  // The weights and workspace of an encoder, and what is kept of what it has made of images,
  // recordings or texts.
  int64_t vision = 0;
  int64_t activations = 0;
  int64_t linear_workspace = 0;
  int64_t attention_workspace = 0;
  int64_t hidden_rows = 0;  // of a step, for a model that drafts, or from another stage's GPU
  int64_t logits = 0;
  int64_t moving_experts = 0;  // read beside those that they replace
  int64_t graphs = 0;          // captured graphs of a GPU
  int64_t batch = 0;           // ids, positions, block tables of one step
  int64_t kv_cache = 0;        // what is left for, or was asked for, KV blocks
  int64_t host_kv = 0;         // copies of KV blocks on their way to and from files
  int64_t block_bytes = 0;
  KvSpec kv_spec;                   // what the blocks are of
  KvPlan kv_plan;                   // how kv_cache is divided among the pools
  double kv_bytes_per_token = 0.0;  // of one sequence, all layers

  // Runners of the same weights, with all else of their own; the sizes here are of one of them.
  int32_t num_replicas = 1;
  int64_t free_memory =
      0;               // of the machine or container when planned; what others use is not in it
  int64_t budget = 0;  // the share of it that may be used; 0 when the KV cache was sized by hand

  int64_t workspace() const {
    return activations + linear_workspace + attention_workspace + hidden_rows + logits +
           moving_experts + graphs + batch;
  }
  // Returns the bytes of all replicas together.
  int64_t total() const {
    return weights + adapters + vision + host_kv + num_replicas * (workspace() + kv_cache);
  }
  // Takes in what another part of the same model takes: a rank, or a stage.
  void add(const MemoryPlan& part);
  std::string table() const;  // several lines, aligned
};

// Returns the least memory for blocks with which a model can run at all.
int64_t least_kv_bytes(const MemoryPlan& plan);

// kResourceExhausted: the KV cache would be too small, or the whole is more than is free.
Status check_memory(const MemoryPlan& plan);

}  // namespace quire
