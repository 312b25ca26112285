// Checks whether the records of the KV cache are sound: KV-1 .. KV-7 as far as they concern one
// moment. Nothing here changes anything.

#include "kv/kv_manager.h"

namespace quire {
namespace {

// Checks KV-1, KV-2 and KV-3.
Status check_pool(const BlockPool& pool, const std::vector<int32_t>& refs) {
  int32_t num_referenced = 0;
  for (int32_t i = 1; i < pool.num_blocks(); ++i) {
    const int32_t ref_cnt = pool.ref_cnt(BlockId(i));
    if (ref_cnt != refs[static_cast<size_t>(i)]) {
      return internal_error("KV-2: block {} has ref_cnt {}, {} references found", i, ref_cnt,
                            refs[static_cast<size_t>(i)]);
    }
    num_referenced += ref_cnt > 0 ? 1 : 0;
  }
  std::vector<bool> seen(static_cast<size_t>(pool.num_blocks()), false);
  int32_t num_listed = 0;
  for (BlockId block = pool.first_free(); block != kNullBlock; block = pool.next_free(block)) {
    if (seen[static_cast<size_t>(block.value)] || pool.ref_cnt(block) != 0) {
      return internal_error("KV-3: block {} is on the free list {}", block.value,
                            pool.ref_cnt(block) != 0 ? "and in use" : "twice");
    }
    seen[static_cast<size_t>(block.value)] = true;
    ++num_listed;
  }
  if (num_listed != pool.num_free() || num_listed + num_referenced != pool.num_blocks() - 1) {
    return internal_error("KV-1: {} free + {} referenced blocks, expected {} (free count {})",
                          num_listed, num_referenced, pool.num_blocks() - 1, pool.num_free());
  }
  return {};
}

// KV-4: the hash of every registered block is that of its parent and tokens, and the cache finds
// its content.
Status check_cache(const BlockPool& pool, const PrefixCache& cache) {
  int32_t num_registered = 0;
  for (int32_t i = 1; i < pool.num_blocks(); ++i) {
    if (!cache.contains(BlockId(i))) continue;
    ++num_registered;
    const BlockContent content = cache.content(BlockId(i));
    if (cache.keys().hasher().extend(content.parent, content.tokens,
                                     cache.keys().media_root(content.keys)) != content.hash ||
        !cache.find(content)) {
      return internal_error("KV-4: block {} is registered under a hash that is not its content's",
                            i);
    }
  }
  if (num_registered != cache.num_registered()) {
    return internal_error("KV-4: {} blocks are registered, the cache counts {}", num_registered,
                          cache.num_registered());
  }
  return {};
}

}  // namespace

Status KvManager::check_integrity() const {
  PoolRefs refs;
  const BlockCounts num_usable = stores_.num_usable();
  for (size_t p = 0; p < kNumKvPools; ++p)
    refs[p].resize(static_cast<size_t>(num_usable.counts[p]) + 1, 0);
  QUIRE_RETURN_IF_ERROR(tables_.check(refs));
  for (const KvPool name : {KvPool::kAttention, KvPool::kState}) {
    if (!stores_.uses(name)) continue;
    const BlockStore& store = stores_.at(name);
    std::vector<int32_t>& pool_refs = refs[static_cast<size_t>(name)];
    bool any_held = false;
    for (int32_t i = 1; i < store.pool().num_blocks(); ++i) {
      const int32_t num_holds = store.num_holds(BlockId(i));
      pool_refs[static_cast<size_t>(i)] += num_holds;
      any_held = any_held || num_holds > 0;
    }
    QUIRE_RETURN_IF_ERROR(check_pool(store.pool(), pool_refs));
    QUIRE_RETURN_IF_ERROR(check_cache(store.pool(), store.cache()));
    if (!tables_.any_open() && !any_held && store.pool().num_free() != num_usable[name]) {
      return internal_error("KV-7: nothing is running and {} of {} blocks of the {} pool are free",
                            store.pool().num_free(), num_usable[name], to_string(name));
    }
  }
  return {};
}

}  // namespace quire
