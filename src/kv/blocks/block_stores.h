// BlockStores holds the store of each pool that a model uses, and the cache keys that they share.
#pragma once

#include <array>
#include <memory>

#include "core/kv_spec.h"
#include "kv/blocks/block_store.h"
#include "kv/books/block_counts.h"
#include "kv/books/kv_options.h"
#include "kv/prefix/cache_keys.h"

namespace quire {

class BlockStores {
 public:
  // `num_blocks` has the number of blocks of each pool, at least 2 for each pool that `spec` uses.
  // Either all pools in use have a host tier, or none has.
  BlockStores(const KvSpec& spec, const BlockCounts& num_blocks, const KvOptions& options);

  CacheKeyTable& keys() { return keys_; }
  const CacheKeyTable& keys() const { return keys_; }
  bool uses(KvPool pool) const { return stores_[static_cast<size_t>(pool)] != nullptr; }
  bool has_host_tier() const;
  // Whether some copies from or to the host are not yet in a plan.
  bool has_untaken_copies() const;
  // Precondition: the pool is used.
  BlockStore& at(KvPool pool) { return *stores_[static_cast<size_t>(pool)]; }
  const BlockStore& at(KvPool pool) const { return *stores_[static_cast<size_t>(pool)]; }
  // Calls visit(store) for each pool that is used.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (const auto& store : stores_) {
      if (store != nullptr) visit(*store);
    }
  }

  BlockCounts num_free() const;
  BlockCounts num_usable() const;  // without null blocks

 private:
  CacheKeyTable keys_;
  std::array<std::unique_ptr<BlockStore>, kNumKvPools> stores_;  // null: not used
};

}  // namespace quire
