#include "kv/blocks/prefix_lookup.h"

#include "kv/groups/group_policy.h"

namespace quire {

void PrefixLookup::hash_up_to(BlockChain& chain, KvPool pool, int32_t num_blocks) const {
  const auto size = static_cast<size_t>(spec_.pool(pool).block_size);
  const PrefixCache& cache = stores_.at(pool).cache();
  const CacheKeyTable& keys = stores_.keys();
  std::vector<BlockHash>& known = hashes(chain, pool);
  while (static_cast<int32_t>(known.size()) < num_blocks) {
    const BlockHash& parent = known.empty() ? keys.root(chain.keys.first) : known.back();
    const size_t begin = known.size() * size;
    const int32_t block_keys = chain.keys.of_block(static_cast<int64_t>(begin + size));
    known.push_back(keys.hasher().extend(parent, chain.tokens.subspan(begin, size),
                                         keys.media_root(block_keys)));
    for (int32_t g = 0; g < num_groups(); ++g) {
      if (spec_.groups[static_cast<size_t>(g)].pool() == pool) cache.prefetch_slot(known.back(), g);
    }
  }
}

int32_t PrefixLookup::longest_hit_tokens(BlockChain& chain) const {
  auto num_tokens = static_cast<int32_t>(chain.tokens.size());
  const auto shorten = [&](bool from_left) {
    for (int32_t g = 0; g < num_groups(); ++g) {
      const KvGroupSpec& group = spec_.groups[static_cast<size_t>(g)];
      if (hits_any_shorter_prefix(group) != from_left) continue;
      const int32_t size = block_size(g);
      num_tokens = size * longest_usable_prefix(group, size, num_tokens / size, [&](int32_t index) {
                     return find(chain, g, index).has_value();
                   });
    }
  };
  shorten(true);
  // Those groups accept every shorter prefix. The others may not, so they are asked again until
  // none shortens it.
  for (int32_t before = -1; before != num_tokens;) {
    before = num_tokens;
    shorten(false);
  }
  return num_tokens;
}

bool PrefixLookup::ends_inside_block(int32_t num_tokens) const {
  for (int32_t g = 0; g < num_groups(); ++g) {
    if (num_tokens % block_size(g) != 0) return true;
  }
  return false;
}

bool PrefixLookup::all_groups_hold(BlockChain& chain, int32_t num_tokens) const {
  for (int32_t g = 0; g < num_groups(); ++g) {
    const KvGroupSpec& group = spec_.groups[static_cast<size_t>(g)];
    const int32_t size = block_size(g);
    const int32_t end = (num_tokens + size - 1) / size;
    // Cached blocks are full, so they have the content after end * size tokens.
    if (!keeps_content_after(group, size, num_tokens, int64_t{end} * size)) return false;
    for (int32_t i = first_needed_block(group, size, num_tokens); i < end; ++i) {
      if (!find(chain, g, i)) return false;
    }
  }
  return true;
}

PrefixHit PrefixLookup::whole_blocks(const BlockChain& chain) const {
  if (chain.tokens.size() < 2) return {};
  BlockChain shorter{chain.keys, chain.tokens.first(chain.tokens.size() - 1), chain.hashes};
  return {.num_tokens = longest_hit_tokens(shorter)};
}

PrefixHit PrefixLookup::longest(const BlockChain& chain) const {
  if (chain.tokens.size() < 2) return {};
  BlockChain whole = chain;
  const int32_t num_tokens = longest_hit_tokens(whole);
  const auto size = static_cast<int32_t>(chain.tokens.size());
  if (num_tokens < size) return {.num_tokens = num_tokens};
  // Everything is cached, but one token must be computed: the hit is all but the last token, and
  // the last block is used as a copy.
  if (ends_inside_block(size - 1) && all_groups_hold(whole, size - 1)) {
    return {.num_tokens = size - 1, .partial_block = true};
  }
  return whole_blocks(chain);
}

}  // namespace quire
