#include "kv/promotion.h"

#include <optional>
#include <vector>

namespace quire {

bool Promotion::all_have(BlockChain& chain, KvPool pool, int32_t index) const {
  for (size_t g = 0; g < spec_.groups.size(); ++g) {
    if (spec_.groups[g].pool() != pool) continue;
    const BlockContent content = prefixes_.content(chain, static_cast<int32_t>(g), index);
    const BlockStore& store = stores_.at(pool);
    if (!store.cache().find(content) && !store.host()->holds(content)) return false;
  }
  return true;
}

int32_t Promotion::num_promotable(BlockChain& chain, int32_t begin) const {
  const auto end =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  int32_t index = begin;
  while (index < end && all_have(chain, KvPool::kAttention, index)) ++index;
  return index - begin;
}

bool Promotion::has_snapshot(BlockChain& chain, int32_t index) const {
  return all_have(chain, KvPool::kState, index);
}

// Returns how many of the first num_blocks blocks of keys and values a sequence can continue from:
// with states, those up to the last snapshot.
int32_t Promotion::usable_blocks(BlockChain& chain, int32_t num_blocks) const {
  if (!spec_.uses(KvPool::kState)) return num_blocks;
  const int32_t per_snapshot = spec_.state.block_size / spec_.block_size;
  int32_t num_snapshots = num_blocks / per_snapshot;
  while (num_snapshots > 0 && !has_snapshot(chain, num_snapshots - 1)) --num_snapshots;
  return num_snapshots * per_snapshot;
}

// References block `index` of each group of the pool, and loads it from the host if it is not on
// the device.
void Promotion::bring_back(BlockChain& chain, KvPool pool, int32_t index, bool may_load,
                           std::vector<std::pair<KvPool, BlockId>>& kept) {
  for (size_t g = 0; g < spec_.groups.size(); ++g) {
    if (spec_.groups[g].pool() != pool) continue;
    BlockStore& store = stores_.at(pool);
    const BlockContent content = prefixes_.content(chain, static_cast<int32_t>(g), index);
    std::optional<BlockId> block = store.cache().find(content);
    if (block) {
      store.touch(*block);
    } else if (may_load) {
      block = store.load(content, index);
    }
    if (block) kept.emplace_back(pool, *block);
  }
}

// Loads the blocks [begin, end) of the chain that are not on the device, and the states after them.
// All blocks of the chain are referenced meanwhile, so that none is evicted for another one.
void Promotion::bring_back(BlockChain& chain, int32_t begin, int32_t end) {
  std::vector<std::pair<KvPool, BlockId>> kept;
  for (int32_t i = 0; i < end; ++i) bring_back(chain, KvPool::kAttention, i, i >= begin, kept);
  if (spec_.uses(KvPool::kState)) {
    const int32_t index = end * spec_.block_size / spec_.state.block_size - 1;
    bring_back(chain, KvPool::kState, index, true, kept);
  }
  for (size_t i = kept.size(); i-- > 0;)  // the tail is evicted first
    stores_.at(kept[i].first).unref(kept[i].second);
}

int32_t Promotion::promote(BlockChain& chain) {
  const int32_t num_cached_tokens = prefixes_.longest_hit_tokens(chain);
  const int32_t begin = num_cached_tokens / spec_.block_size;
  const int32_t end = usable_blocks(chain, begin + num_promotable(chain, begin));
  if (end <= begin) return 0;
  if (options_.load_pays &&
      !options_.load_pays(num_cached_tokens, (end - begin) * spec_.block_size))
    return 0;
  bring_back(chain, begin, end);
  return prefixes_.longest_hit_tokens(chain) / spec_.block_size - begin;
}

}  // namespace quire
