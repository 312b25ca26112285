#include "kv/blocks/block_stores.h"

#include "base/check.h"

namespace quire {

BlockStores::BlockStores(const KvSpec& spec, const BlockCounts& num_blocks,
                         const KvOptions& options)
    : keys_(options.hash_seed) {
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    QUIRE_CHECK((options.num_host_blocks > 1 || options.num_host_state_blocks > 1) ==
                        (options.num_host(pool) > 1) ||
                    !spec.uses(pool),
                "blocks of host memory for some of the pools in use");
  }
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (!spec.uses(pool)) continue;
    stores_[static_cast<size_t>(pool)] = std::make_unique<BlockStore>(
        pool, static_cast<int32_t>(num_blocks[pool]), spec.pool(pool).block_size, options, keys_);
  }
}

bool BlockStores::has_host_tier() const {
  for (const auto& store : stores_) {
    if (store != nullptr && store->host() != nullptr) return true;
  }
  return false;
}

bool BlockStores::has_untaken_copies() const {
  for (const auto& store : stores_) {
    if (store != nullptr && store->host() != nullptr && store->host()->any()) return true;
  }
  return false;
}

BlockCounts BlockStores::num_free() const {
  BlockCounts counts;
  for (const auto& store : stores_) {
    if (store != nullptr) counts[store->name()] = store->pool().num_free();
  }
  return counts;
}

BlockCounts BlockStores::num_usable() const {
  BlockCounts counts;
  for (const auto& store : stores_) {
    if (store != nullptr) counts[store->name()] = store->pool().num_blocks() - 1;
  }
  return counts;
}

}  // namespace quire
