// HostTier records which content that was evicted from the device is kept in blocks of host memory.
// It has only ids; the executor owns the memory and makes the copies. One thread may use it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "core/request.h"
#include "kv/blocks/block_pool.h"
#include "kv/prefix/prefix_cache.h"

namespace quire {

// Content is compared exactly, keys included, as in PrefixCache. Key ids of the device's cache have
// no meaning here, so calls pass the keys themselves. The least recently used content is evicted
// first, unless it is pinned.
class HostTier {
 public:
  // `num_blocks` >= 2 of host memory; block 0 is not used.
  HostTier(int32_t num_blocks, int32_t block_size, uint64_t hash_seed);

  // Returns the block that the content is to be copied to; nullopt: the content is here already, or
  // all blocks are pinned.
  std::optional<BlockId> keep(BlockContent content, const CacheKeys& keys);
  // Returns the block that has the content, which now counts as used.
  std::optional<BlockId> find(BlockContent content, const CacheKeys& keys);
  bool holds(BlockContent content, const CacheKeys& keys) const;

  // --- For threads that read and write blocks beside the steps ---
  // Returns a block that is to be filled from elsewhere; nullopt: all are pinned. The reservation
  // ends with fill() or drop().
  std::optional<BlockId> reserve();
  // Says that the reserved block has the content now, unless another block has it already.
  void fill(BlockId block, BlockContent content, const CacheKeys& keys);
  void drop(BlockId block) { pool_.unref(block, FreeEnd::kFront); }
  // Keeps a block's content in place until unpin() was called as often.
  void pin(BlockId block) { pool_.ref(block); }
  void unpin(BlockId block) { pool_.unref(block, FreeEnd::kBack); }
  int32_t num_unpinned() const { return pool_.num_free(); }
  int32_t num_blocks() const { return pool_.num_blocks(); }

  int32_t num_kept() const { return index_.num_registered(); }
  void clear() { index_.clear(); }

 private:
  std::optional<BlockId> lookup(BlockContent& content, const CacheKeys& keys) const;

  BlockId take();
  void put(BlockId block, BlockContent& content, const CacheKeys& keys);

  CacheKeyTable keys_;
  BlockPool pool_;  // free blocks in order of use, without the pinned ones
  PrefixCache index_;
};

}  // namespace quire
