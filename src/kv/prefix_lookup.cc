#include "kv/prefix_lookup.h"

#include "kv/group_policy.h"

namespace quire {

void PrefixLookup::hash_up_to(BlockChain& chain, int32_t num_blocks) const {
  const auto size = static_cast<size_t>(spec_.block_size);
  while (static_cast<int32_t>(chain.hashes.size()) < num_blocks) {
    const BlockHash& parent = chain.hashes.empty() ? cache_.root(chain.keys) : chain.hashes.back();
    chain.hashes.push_back(
        cache_.hasher().extend(parent, chain.tokens.subspan(chain.hashes.size() * size, size)));
    for (int32_t g = 0; g < num_groups(); ++g) cache_.prefetch_slot(chain.hashes.back(), g);
  }
}

int32_t PrefixLookup::longest_hit_blocks(BlockChain& chain) const {
  auto num_blocks =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  const auto shorten = [&](bool from_left) {
    for (int32_t g = 0; g < num_groups(); ++g) {
      const KvGroupSpec& group = spec_.groups[static_cast<size_t>(g)];
      if (hits_any_shorter_prefix(group) != from_left) continue;
      num_blocks = longest_usable_prefix(group, spec_.block_size, num_blocks, [&](int32_t index) {
        return find(chain, g, index).has_value();
      });
    }
  };
  shorten(true);
  // Those groups accept every shorter prefix; the others may not, so they are asked again until
  // none shortens it.
  for (int32_t before = -1; before != num_blocks;) {
    before = num_blocks;
    shorten(false);
  }
  return num_blocks;
}

bool PrefixLookup::all_groups_hold(BlockChain& chain, int32_t num_tokens) const {
  const int32_t end = (num_tokens + spec_.block_size - 1) / spec_.block_size;
  for (int32_t g = 0; g < num_groups(); ++g) {
    const int32_t first =
        first_needed_block(spec_.groups[static_cast<size_t>(g)], spec_.block_size, num_tokens);
    for (int32_t i = first; i < end; ++i) {
      if (!find(chain, g, i)) return false;
    }
  }
  return true;
}

PrefixHit PrefixLookup::whole_blocks(const BlockChain& chain) const {
  if (chain.tokens.size() < 2) return {};
  BlockChain shorter{chain.keys, chain.tokens.first(chain.tokens.size() - 1), chain.hashes};
  return {.num_tokens = longest_hit_blocks(shorter) * spec_.block_size};
}

PrefixHit PrefixLookup::longest(const BlockChain& chain) const {
  if (chain.tokens.size() < 2) return {};
  BlockChain whole = chain;
  const int32_t num_tokens = longest_hit_blocks(whole) * spec_.block_size;
  const auto size = static_cast<int32_t>(chain.tokens.size());
  if (num_tokens < size) return {.num_tokens = num_tokens};
  // Everything is cached, but one token must be computed: the last block is used but for its last
  // slot, as a copy.
  if (spec_.block_size > 1 && all_groups_hold(whole, size - 1)) {
    return {.num_tokens = size - 1, .partial_block = true};
  }
  return whole_blocks(chain);
}

}  // namespace quire
