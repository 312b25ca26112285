// KvSpec says what a model's layers need from the KV cache; KvPlan says how many blocks they get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

// What a layer keeps of the tokens that it has seen: the keys and values of all of them, those of a
// window, or one state of fixed size that each token changes (Mamba, Gated DeltaNet, short
// convolutions).
enum class KvKind : uint8_t { kFull, kSlidingWindow, kState };

// Memory that is divided into blocks. Each pool has its own block ids, block count, tokens per
// block and bytes per block; block 0 of each is its null block.
enum class KvPool : uint8_t { kAttention, kState };
inline constexpr size_t kNumKvPools = 2;

constexpr KvPool pool_of(KvKind kind) {
  return kind == KvKind::kState ? KvPool::kState : KvPool::kAttention;
}
constexpr const char* to_string(KvPool pool) {
  return pool == KvPool::kState ? "state" : "attention";
}

// Layers that share one block table. The groups of a pool draw from it together: a block id names
// one block in whichever group holds it, so every group must need the same bytes per block. A model
// whose layers are of several kinds is cut into groups of about equal bytes, the rest padded
// (core/kv_grouping.h; Gemma 3: 5 local layers for 1 global).
struct KvGroupSpec {
  KvKind kind = KvKind::kFull;
  // Tokens that a query sees, itself included, if kind is kSlidingWindow; unused otherwise.
  int32_t sliding_window = 0;
  // Model layers in this group, in the order in which they lie in a block.
  std::vector<int32_t> layers;

  KvPool pool() const { return pool_of(kind); }
};

struct KvPoolSpec {
  int32_t block_size = 16;  // tokens per block, the same in every group of the pool
  int64_t block_bytes = 0;  // memory of one block
};

struct KvSpec {
  // Tokens per block of KvPool::kAttention. A block holds K and V of block_size tokens in the
  // layers of one group.
  int32_t block_size = 16;
  std::vector<KvGroupSpec> groups;
  int64_t block_bytes = 0;
  // KvPool::kState. Block k of a sequence holds the states of a group's layers after the last
  // computed token of [k * block_size, (k + 1) * block_size). A block whose tokens are all computed
  // is a snapshot, from which other sequences with the same tokens can continue. Its block_size is
  // a multiple of that of kAttention.
  KvPoolSpec state = {.block_size = 512, .block_bytes = 0};

  KvPoolSpec pool(KvPool pool) const {
    return pool == KvPool::kState
               ? state
               : KvPoolSpec{.block_size = block_size, .block_bytes = block_bytes};
  }
  int32_t num_groups(KvPool pool) const {
    int32_t count = 0;
    for (const KvGroupSpec& group : groups) count += group.pool() == pool ? 1 : 0;
    return count;
  }
  bool uses(KvPool pool) const {
    for (const KvGroupSpec& group : groups) {
      if (group.pool() == pool) return true;
    }
    return false;
  }
};

struct KvPlan {
  int32_t num_blocks = 0;             // of KvPool::kAttention, the null block included; 0: not used
  int32_t num_host_blocks = 0;        // in host memory, block 0 (unused) included; 0: none
  int32_t num_state_blocks = 0;       // of KvPool::kState, the null block included; 0: not used
  int32_t num_host_state_blocks = 0;  // the same for KvPool::kState

  int32_t num_host(KvPool pool) const {
    return pool == KvPool::kState ? num_host_state_blocks : num_host_blocks;
  }
  int32_t count(KvPool pool) const {
    return pool == KvPool::kState ? num_state_blocks : num_blocks;
  }
};

}  // namespace quire
