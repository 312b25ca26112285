// What the model's layers need of the KV cache, and the plan that answers it.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

enum class KvKind : uint8_t { kFull, kSlidingWindow };

// Layers that share one block table. All groups of a model draw from one pool: a block id names one
// block in whichever group holds it, so every group must need the same bytes per block. A model
// whose layers are of several kinds is cut into groups of about equal bytes, the rest padded
// (core/kv_grouping.h; Gemma 3: 5 local layers for 1 global).
struct KvGroupSpec {
  KvKind kind = KvKind::kFull;
  // Tokens a query sees, itself included; used when kind is kSlidingWindow.
  int32_t sliding_window = 0;
  // Model layers in this group, in the order in which they lie in a block.
  std::vector<int32_t> layers;
};

struct KvSpec {
  int32_t block_size = 16;  // tokens per block, the same in every group
  std::vector<KvGroupSpec> groups;
  int64_t block_bytes =
      0;  // memory of one block: K and V of block_size tokens in the layers of one group
};

struct KvPlan {
  int32_t num_blocks = 0;       // the null block included
  int32_t num_host_blocks = 0;  // of host memory, block 0 (unused) included; 0: none
};

}  // namespace quire
