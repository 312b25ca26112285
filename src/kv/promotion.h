// Bringing KV back from the host: what continues the cached prefix of some tokens.
#pragma once

#include <cstdint>

#include "core/kv_spec.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/kv_options.h"

namespace quire {

class Promotion {
 public:
  // Borrows all of them. The store of KvPool::kAttention has a host tier.
  Promotion(const KvSpec& spec, const KvOptions& options, BlockStores& stores,
            const PrefixLookup& prefixes)
      : spec_(spec), options_(options), stores_(stores), prefixes_(prefixes) {}

  // Brings back what continues the chain's cached prefix, when that pays. By how many blocks the
  // cached prefix is longer.
  int32_t promote(BlockChain& chain);
  // Blocks from `begin` on that every group has, here or in the host's memory.
  int32_t num_promotable(BlockChain& chain, int32_t begin) const;

 private:
  int32_t num_groups() const { return static_cast<int32_t>(spec_.groups.size()); }
  void bring_back(BlockChain& chain, int32_t begin, int32_t end);

  const KvSpec& spec_;
  const KvOptions& options_;
  BlockStores& stores_;
  const PrefixLookup& prefixes_;
};

}  // namespace quire
