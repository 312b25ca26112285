// Events by which the prefix cache tells routers which block contents it holds. Plain structs; the
// engine drains them once per step and sends them.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "kv/prefix/block_hash.h"

namespace quire {

// The first copy of this content is now in the cache.
struct BlockStored {
  BlockHash hash;
  BlockHash parent;  // for a first block: the root hash of the sequence's keys
  std::vector<TokenId> token_ids;
  int32_t group = 0;
  int32_t block_index = 0;  // index in the sequence; 0: the parent is a root
};

// The last copy of this content has left the cache.
struct BlockRemoved {
  BlockHash hash;
  int32_t group = 0;
};

struct AllBlocksCleared {};

using KvEvent = std::variant<BlockStored, BlockRemoved, AllBlocksCleared>;

// The time of one sampled block in the cache, reported when it is evicted. Microseconds.
struct ResidencySample {
  int64_t lifetime_us = 0;       // allocation -> eviction
  int64_t idle_us = 0;           // last access -> eviction
  int32_t num_reuse_gaps = 0;    // number of valid entries of reuse_gap_us
  int64_t reuse_gap_us[3] = {};  // between its last four accesses, oldest first
};

}  // namespace quire
