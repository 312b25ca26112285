// KvManager: blocks that come back from host memory.

#include <algorithm>

#include "base/check.h"
#include "kv/kv_manager.h"

namespace quire {

// Blocks from `begin` on that every group has, here or in the host's memory.
int32_t KvManager::num_promotable(Chain& chain, int32_t begin) const {
  const auto end =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  const CacheKeys& keys = cache_.keys(chain.keys);
  for (int32_t i = begin; i < end; ++i) {
    for (int32_t group = 0; group < num_groups(); ++group) {
      const BlockContent content = content_of(chain, group, i);
      if (!cache_.find(content) && !host_->holds(content, keys)) return i - begin;
    }
  }
  return end - begin;
}

// Brings one block back and references it. Null block: it has gone meanwhile, or there is no room.
BlockId KvManager::promote_block(Chain& chain, int32_t group, int32_t index) {
  const BlockContent content = content_of(chain, group, index);
  if (pool_.num_free() == 0) return kNullBlock;
  const BlockId block = take_block();  // first: what it held may push other content out of the host
  const std::optional<BlockId> from = host_->find(content, cache_.keys(chain.keys));
  if (!from) {
    unref(block);
    return kNullBlock;
  }
  host_copies_.push_back({.block = block, .host_block = *from, .to_host = false});
  register_block(content, block, index);
  ++totals_.num_loaded_total;
  return block;
}

int32_t KvManager::promote(KvSequenceId id, std::span<const TokenId> tokens) {
  if (!host_ || !reads_cache() || tokens.size() < 2) return 0;
  Sequence& sequence = at(id);
  Chain chain{sequence.keys, tokens.first(tokens.size() - 1), sequence.hashes};
  const int32_t begin = longest_hit_blocks(chain);
  const int32_t count = num_promotable(chain, begin);
  if (count == 0) return 0;
  const int32_t num_cached_tokens = begin * spec_.block_size;
  if (options_.load_pays && !options_.load_pays(num_cached_tokens, count * spec_.block_size))
    return 0;
  // Neither what is here nor what has come may be evicted for what comes.
  std::vector<BlockId> kept;
  for (int32_t i = 0; i < begin + count; ++i) {
    for (int32_t group = 0; group < num_groups(); ++group) {
      std::optional<BlockId> block = cache_.find(content_of(chain, group, i));
      if (block) touch(*block);
      if (!block && i >= begin) block = promote_block(chain, group, i);
      if (block && *block != kNullBlock) kept.push_back(*block);
    }
  }
  for (size_t i = kept.size(); i-- > 0;) unref(kept[i]);  // the tail is evicted first
  return longest_hit_blocks(chain) - begin;
}

void KvManager::take_host_copies(std::vector<HostBlockCopy>& out) {
  out.assign(host_copies_.begin(), host_copies_.end());
  host_copies_.clear();
}

}  // namespace quire
