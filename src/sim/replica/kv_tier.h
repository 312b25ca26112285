// A KvTier is memory behind the KV cache of a replica (host memory, disk). It stores blocks that
// the cache evicts, so that they are read back instead of computed again. It stores only their
// hashes.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "kv/books/kv_events.h"
#include "kv/prefix/block_hash.h"

namespace quire::sim {

struct KvTierOptions {
  int64_t capacity_tokens = 0;  // 0 means that there is no tier
  double bytes_per_s = 50e9;
  int64_t latency_ns = 50'000;  // latency of one load
};

class KvTier {
 public:
  KvTier(const KvTierOptions& options, int32_t block_size, double bytes_per_token,
         uint64_t hash_seed);

  // Stores the blocks that were evicted from the cache, and drops the least recently used ones.
  // Loads and stores use separate directions of the link; stores are assumed to delay nothing.
  void on_events(std::span<const KvEvent> events);
  // Returns how many consecutive tokens of `prompt` behind the first `num_cached` (whole blocks)
  // this tier holds, and notes that their blocks were used.
  int32_t touch(std::span<const TokenId> prompt, int32_t num_cached);
  // Starts a load of `num_tokens` and returns when it will have ended. Loads queue.
  int64_t load(int32_t num_tokens, int64_t now_ns);

  int64_t num_blocks() const { return static_cast<int64_t>(by_hash_.size()); }

 private:
  struct HashOf {
    size_t operator()(const BlockHash& h) const { return static_cast<size_t>(h.low); }
  };
  void keep(const BlockHash& hash);

  KvTierOptions options_;
  int32_t block_size_;
  double bytes_per_token_;
  int64_t capacity_blocks_;
  BlockHasher hasher_;
  BlockHash root_;
  std::list<BlockHash> recent_;  // most recently used first
  std::unordered_map<BlockHash, std::list<BlockHash>::iterator, HashOf> by_hash_;
  int64_t link_free_ns_ = 0;
};

}  // namespace quire::sim
