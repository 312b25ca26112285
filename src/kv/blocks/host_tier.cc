#include "kv/blocks/host_tier.h"

namespace quire {

HostTier::HostTier(int32_t num_blocks, int32_t block_size, uint64_t hash_seed)
    : keys_(hash_seed), pool_(num_blocks), index_(num_blocks, block_size, keys_) {}

// Looks the content up, and sets content.keys to this tier's id of the keys.
std::optional<BlockId> HostTier::lookup(BlockContent& content, const CacheKeys& keys) const {
  const std::optional<int32_t> key_id = keys_.find(keys);
  if (!key_id) return std::nullopt;
  content.keys = *key_id;
  return index_.find(content);
}

bool HostTier::holds(BlockContent content, const CacheKeys& keys) const {
  return lookup(content, keys).has_value();
}

std::optional<BlockId> HostTier::find(BlockContent content, const CacheKeys& keys) {
  const std::optional<BlockId> block = lookup(content, keys);
  if (block) {
    pool_.ref(*block);
    pool_.unref(*block, FreeEnd::kBack);
  }
  return block;
}

// Returns the block whose content was used longest ago, and forgets that content.
BlockId HostTier::take() {
  const BlockId block = pool_.take();
  if (index_.contains(block)) index_.erase(block);
  return block;
}

void HostTier::put(BlockId block, BlockContent& content, const CacheKeys& keys) {
  content.keys = keys_.acquire(keys);
  index_.insert(block, content);
  keys_.release(content.keys);  // the block is a user of them now
  pool_.unref(block, FreeEnd::kBack);
}

std::optional<BlockId> HostTier::keep(BlockContent content, const CacheKeys& keys) {
  if (find(content, keys) || pool_.num_free() == 0) return std::nullopt;
  const BlockId block = take();
  put(block, content, keys);
  return block;
}

std::optional<BlockId> HostTier::reserve() {
  if (pool_.num_free() == 0) return std::nullopt;
  return take();
}

void HostTier::fill(BlockId block, BlockContent content, const CacheKeys& keys) {
  if (lookup(content, keys)) {
    drop(block);
  } else {
    put(block, content, keys);
  }
}

}  // namespace quire
