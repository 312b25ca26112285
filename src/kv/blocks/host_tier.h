// HostTier knows which content that left the device's blocks is kept in blocks of host memory. It
// has ids only; whoever executes plans owns the memory and makes the copies. One thread may use it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "core/request.h"
#include "kv/blocks/block_pool.h"
#include "kv/prefix/prefix_cache.h"

namespace quire {

// Content is compared exactly, keys included, as in PrefixCache; key ids of the device's cache mean
// nothing here, so the keys themselves come along. The least recently used content gives way, unless
// it is pinned.
class HostTier {
 public:
  // `num_blocks` >= 2 of host memory; block 0 is not used.
  HostTier(int32_t num_blocks, int32_t block_size, uint64_t hash_seed);

  // The block that the content is to be copied to; nullopt: it is here already, or all is pinned.
  std::optional<BlockId> keep(BlockContent content, const CacheKeys& keys);
  // Where the content is. It counts as used now.
  std::optional<BlockId> find(BlockContent content, const CacheKeys& keys);
  bool holds(BlockContent content, const CacheKeys& keys) const;

  // --- For whoever reads and writes blocks beside the steps ---
  // A block that is to be filled from elsewhere; nullopt: all are pinned. Ends with fill() or drop().
  std::optional<BlockId> reserve();
  // The reserved block has the content now, unless another one has it already.
  void fill(BlockId block, BlockContent content, const CacheKeys& keys);
  void drop(BlockId block) { pool_.unref(block, FreeEnd::kFront); }
  // Keeps the content of a block where it is, as often as it is unpinned.
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
  BlockPool pool_;  // the free list is in order of use; pinned blocks are not in it
  PrefixCache index_;
};

}  // namespace quire
