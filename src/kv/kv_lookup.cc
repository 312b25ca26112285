// KvManager: finding cached prefixes. Nothing here changes a block, except hold().

#include <algorithm>

#include "base/check.h"
#include "kv/kv_manager.h"

namespace quire {

void KvManager::extend(Chain& chain, int32_t num_blocks) const {
  const auto size = static_cast<size_t>(spec_.block_size);
  while (static_cast<int32_t>(chain.hashes.size()) < num_blocks) {
    const BlockHash& parent = chain.hashes.empty() ? cache_.root(chain.keys) : chain.hashes.back();
    chain.hashes.push_back(
        cache_.hasher().extend(parent, chain.tokens.subspan(chain.hashes.size() * size, size)));
    for (int32_t g = 0; g < num_groups(); ++g) cache_.prefetch_slot(chain.hashes.back(), g);
  }
}

std::optional<BlockId> KvManager::find_cached(Chain& chain, int32_t group, int32_t index) const {
  return cache_.find(content_of(chain, group, index));
}

BlockContent KvManager::content_of(Chain& chain, int32_t group, int32_t index) const {
  extend(chain, index + 1);
  const auto i = static_cast<size_t>(index);
  const auto size = static_cast<size_t>(spec_.block_size);
  return {.group = group,
          .keys = chain.keys,
          .hash = chain.hashes[i],
          .parent = i == 0 ? cache_.root(chain.keys) : chain.hashes[i - 1],
          .tokens = chain.tokens.subspan(i * size, size)};
}

// The longest prefix of at most num_blocks blocks whose window this group still has: searched from
// the right, since only the last blocks of a prefix matter to it.
int32_t KvManager::longest_window_hit(Chain& chain, int32_t group, int32_t num_blocks) const {
  const KvGroupSpec& spec = spec_.groups[static_cast<size_t>(group)];
  int32_t end = num_blocks;
  while (end > 0) {
    const int32_t first =
        first_needed_block(spec, spec_.block_size, int64_t{end} * spec_.block_size);
    int32_t i = end;
    while (i > first && find_cached(chain, group, i - 1)) --i;
    if (i == first) return end;
    end = i - 1;
  }
  return 0;
}

int32_t KvManager::longest_hit_blocks(Chain& chain) const {
  auto num_blocks =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  for (int32_t g = 0; g < num_groups(); ++g) {
    if (windowed_ && spec_.groups[static_cast<size_t>(g)].kind != KvKind::kFull) continue;
    int32_t i = 0;
    while (i < num_blocks && find_cached(chain, g, i)) ++i;
    num_blocks = i;
  }
  // A full group accepts every shorter length; a windowed one may not, so go round until none
  // shortens it.
  for (int32_t before = -1; before != num_blocks;) {
    before = num_blocks;
    for (int32_t g = 0; g < num_groups(); ++g) {
      if (spec_.groups[static_cast<size_t>(g)].kind == KvKind::kFull) continue;
      num_blocks = longest_window_hit(chain, g, num_blocks);
    }
  }
  return num_blocks;
}

bool KvManager::all_groups_hold(Chain& chain, int32_t num_tokens) const {
  for (int32_t g = 0; g < num_groups(); ++g) {
    const int32_t first =
        first_needed_block(spec_.groups[static_cast<size_t>(g)], spec_.block_size, num_tokens);
    for (int32_t i = first; i < round_up_to_blocks(num_tokens); ++i) {
      if (!find_cached(chain, g, i)) return false;
    }
  }
  return true;
}

bool KvManager::reads_cache() const {
  return options_.enable_prefix_caching && options_.reservation == KvReservation::kPaged;
}

PrefixHit KvManager::lookup(KvSequenceId id, std::span<const TokenId> tokens) {
  if (!reads_cache() || tokens.size() < 2) return {};
  Sequence& sequence = at(id);
  Chain chain{sequence.keys, tokens, sequence.hashes};
  const int32_t num_blocks = longest_hit_blocks(chain);
  const auto size = static_cast<int32_t>(tokens.size());
  if (num_blocks * spec_.block_size < size) return {.num_tokens = num_blocks * spec_.block_size};
  // Everything is cached, but one token must be computed: take the last block all but its last
  // slot, as a copy.
  if (spec_.block_size > 1 && all_groups_hold(chain, size - 1)) {
    return {.num_tokens = size - 1, .partial_block = true};
  }
  return lookup_whole_blocks(id, tokens);
}

PrefixHit KvManager::lookup_whole_blocks(KvSequenceId id, std::span<const TokenId> tokens) {
  if (!reads_cache() || tokens.size() < 2) return {};
  Sequence& sequence = at(id);
  Chain chain{sequence.keys, tokens.first(tokens.size() - 1), sequence.hashes};
  return {.num_tokens = longest_hit_blocks(chain) * spec_.block_size};
}

KvProbe KvManager::probe(std::span<const TokenId> tokens, const CacheKeys& keys) const {
  const std::optional<int32_t> key_id = cache_.find_keys(keys);
  if (!key_id || !reads_cache()) return {};
  std::vector<BlockHash> hashes;
  Chain chain{*key_id, tokens, hashes};
  const int32_t num_blocks = longest_hit_blocks(chain);
  return {.num_tokens = num_blocks * spec_.block_size, .num_blocks = num_blocks};
}

BlockId KvManager::hit_block(Chain& chain, const PrefixHit& hit, int32_t group,
                             int32_t index) const {
  if (hit.from_fork) {
    return at(hit.fork_source)
        .groups[static_cast<size_t>(group)]
        .blocks[static_cast<size_t>(index)];
  }
  const std::optional<BlockId> block = find_cached(chain, group, index);
  QUIRE_CHECK(block.has_value(), "KV-4: block {} of a hit left the cache before it was adopted",
              index);
  return *block;
}

void KvManager::hold(KvSequenceId id, std::span<const TokenId> tokens, const PrefixHit& hit) {
  QUIRE_CHECK(held_.empty(), "one hold at a time");
  Sequence& sequence = at(id);
  Chain chain{sequence.keys, tokens, sequence.hashes};
  for (int32_t g = 0; g < num_groups(); ++g) {
    const KvGroupSpec& group = spec_.groups[static_cast<size_t>(g)];
    const int32_t first = first_needed_block(group, spec_.block_size, hit.num_tokens);
    for (int32_t i = first; i < round_up_to_blocks(hit.num_tokens); ++i) {
      held_.push_back(hit_block(chain, hit, g, i));
      pool_.ref(held_.back());  // not an access: residency does not count it
    }
  }
}

void KvManager::unhold() {
  while (!held_.empty()) {
    unref(held_.back());
    held_.pop_back();
  }
}

}  // namespace quire
