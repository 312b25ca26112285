#include "kv/promotion.h"

#include <optional>
#include <vector>

namespace quire {

int32_t Promotion::num_promotable(BlockChain& chain, int32_t begin) const {
  const BlockStore& store = stores_.at(KvPool::kAttention);
  const auto end =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  for (int32_t i = begin; i < end; ++i) {
    for (int32_t group = 0; group < num_groups(); ++group) {
      const BlockContent content = prefixes_.content(chain, group, i);
      if (!store.cache().find(content) && !store.host()->holds(content)) return i - begin;
    }
  }
  return end - begin;
}

// Loads blocks [begin, end) of the chain that are not here. Neither what is here nor what has come
// may be evicted for what comes, so all of it is referenced meanwhile.
void Promotion::bring_back(BlockChain& chain, int32_t begin, int32_t end) {
  BlockStore& store = stores_.at(KvPool::kAttention);
  std::vector<BlockId> kept;
  for (int32_t i = 0; i < end; ++i) {
    for (int32_t group = 0; group < num_groups(); ++group) {
      const BlockContent content = prefixes_.content(chain, group, i);
      std::optional<BlockId> block = store.cache().find(content);
      if (block) {
        store.touch(*block);
      } else if (i >= begin) {
        block = store.load(content, i);
      }
      if (block) kept.push_back(*block);
    }
  }
  for (size_t i = kept.size(); i-- > 0;) store.unref(kept[i]);  // the tail is evicted first
}

int32_t Promotion::promote(BlockChain& chain) {
  const int32_t num_cached_tokens = prefixes_.longest_hit_tokens(chain);
  const int32_t begin = num_cached_tokens / spec_.block_size;
  const int32_t count = num_promotable(chain, begin);
  if (count == 0) return 0;
  if (options_.load_pays && !options_.load_pays(num_cached_tokens, count * spec_.block_size))
    return 0;
  bring_back(chain, begin, begin + count);
  return prefixes_.longest_hit_tokens(chain) / spec_.block_size - begin;
}

}  // namespace quire
