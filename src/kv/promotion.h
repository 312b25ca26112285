// Promotion brings KV that continues the cached prefix of some tokens back from host memory.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/kv_spec.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/kv_options.h"

namespace quire {

class Promotion {
 public:
  // Borrows all of its arguments. The stores have host tiers.
  Promotion(const KvSpec& spec, const KvOptions& options, BlockStores& stores,
            const PrefixLookup& prefixes)
      : spec_(spec), options_(options), stores_(stores), prefixes_(prefixes) {}

  // If that pays, brings back what continues the chain's cached prefix. Returns by how many blocks
  // the prefix has grown.
  int32_t promote(BlockChain& chain);
  // Returns how many blocks of KvPool::kAttention from `begin` on all of its groups have, on the
  // device or in host memory; all blocks of the chain if there is no such group.
  int32_t num_promotable(BlockChain& chain, int32_t begin) const;
  // Whether each group of states has block `index`, on the device or in host memory.
  bool has_snapshot(BlockChain& chain, int32_t index) const;

 private:
  bool all_have(BlockChain& chain, KvPool pool, int32_t index) const;
  int32_t usable_blocks(BlockChain& chain, int32_t num_blocks) const;
  void bring_back(BlockChain& chain, int32_t begin, int32_t end);
  void bring_back(BlockChain& chain, KvPool pool, int32_t index, bool may_load,
                  std::vector<std::pair<KvPool, BlockId>>& kept);

  const KvSpec& spec_;
  const KvOptions& options_;
  BlockStores& stores_;
  const PrefixLookup& prefixes_;
};

}  // namespace quire
