#include "kv/kv_manager.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"

namespace quire {

KvManager::KvManager(KvSpec spec, int32_t num_blocks, KvOptions options)
    : spec_(std::move(spec)),
      options_(std::move(options)),
      store_(num_blocks, spec_.block_size, options_),
      tables_(spec_, options_, store_),
      prefixes_(spec_, store_.cache()) {
  QUIRE_CHECK(!spec_.groups.empty() && spec_.block_size >= 1,
              "a KvSpec needs a group and a block size");
  for (const KvGroupSpec& group : spec_.groups) {
    QUIRE_CHECK(group.kind == KvKind::kFull || group.sliding_window >= 1, "a window of {} tokens",
                group.sliding_window);
  }
  QUIRE_CHECK(options_.reservation == KvReservation::kPaged || options_.max_sequence_tokens > 0,
              "contiguous reservation needs max_sequence_tokens");
}

int64_t KvManager::book_bytes(int32_t num_blocks, int32_t block_size) {
  constexpr int64_t kRecord = 132;  // in the pool, in the prefix cache and among the holds
  return num_blocks * (kRecord + int64_t{block_size} * int64_t{sizeof(TokenId)});
}

void KvManager::begin_step(int64_t now_us) {
  store_.set_time(now_us);
  tables_.begin_step();
}

KvSequenceId KvManager::open(RequestId owner, const CacheKeys& keys) {
  return tables_.open(owner, store_.acquire_keys(keys));
}

void KvManager::close(KvSequenceId sequence) { store_.release_keys(tables_.close(sequence)); }

// --- Cached prefixes ---

PrefixHit KvManager::lookup(KvSequenceId sequence, std::span<const TokenId> tokens) {
  if (!options_.reads_cache()) return {};
  return prefixes_.longest(tables_.chain(sequence, tokens));
}

PrefixHit KvManager::lookup_whole_blocks(KvSequenceId sequence, std::span<const TokenId> tokens) {
  if (!options_.reads_cache()) return {};
  return prefixes_.whole_blocks(tables_.chain(sequence, tokens));
}

BlockHold KvManager::hold(KvSequenceId sequence, std::span<const TokenId> tokens,
                          const PrefixHit& hit) {
  BlockHold hold(store_);
  tables_.hold(sequence, tokens, hit, hold);
  return hold;
}

KvProbe KvManager::probe(std::span<const TokenId> tokens, const CacheKeys& keys) const {
  const std::optional<int32_t> key_id = store_.cache().find_keys(keys);
  if (!key_id || !options_.reads_cache()) return {};
  std::vector<BlockHash> hashes;
  BlockChain chain{*key_id, tokens, hashes};
  const int32_t num_blocks = prefixes_.longest_hit_blocks(chain);
  return {.num_tokens = num_blocks * spec_.block_size, .num_blocks = num_blocks};
}

Status KvManager::reset_prefix_cache() {
  tables_.begin_step();
  const int32_t num_free = num_free_blocks();
  if (num_free != num_usable_blocks()) {
    return unavailable("prefix cache reset: expected all {} blocks free, got {} in use",
                       num_usable_blocks(), num_usable_blocks() - num_free);
  }
  store_.clear();
  return {};
}

// --- Host tier ---

// Blocks from `begin` on that every group has, here or in the host's memory.
int32_t KvManager::num_promotable(BlockChain& chain, int32_t begin) const {
  const auto end =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  for (int32_t i = begin; i < end; ++i) {
    for (int32_t group = 0; group < num_groups(); ++group) {
      const BlockContent content = prefixes_.content(chain, group, i);
      if (!store_.cache().find(content) && !store_.host_holds(content)) return i - begin;
    }
  }
  return end - begin;
}

// Loads blocks [begin, end) of the chain that are not here. Neither what is here nor what has come
// may be evicted for what comes, so all of it is referenced meanwhile.
void KvManager::bring_back(BlockChain& chain, int32_t begin, int32_t end) {
  std::vector<BlockId> kept;
  for (int32_t i = 0; i < end; ++i) {
    for (int32_t group = 0; group < num_groups(); ++group) {
      const BlockContent content = prefixes_.content(chain, group, i);
      std::optional<BlockId> block = store_.cache().find(content);
      if (block) {
        store_.touch(*block);
      } else if (i >= begin) {
        block = store_.load(content, i);
      }
      if (block) kept.push_back(*block);
    }
  }
  for (size_t i = kept.size(); i-- > 0;) store_.unref(kept[i]);  // the tail is evicted first
}

int32_t KvManager::promote(KvSequenceId sequence, std::span<const TokenId> tokens) {
  if (!has_host_tier() || !options_.reads_cache() || tokens.size() < 2) return 0;
  BlockChain chain = tables_.chain(sequence, tokens.first(tokens.size() - 1));
  const int32_t begin = prefixes_.longest_hit_blocks(chain);
  const int32_t count = num_promotable(chain, begin);
  if (count == 0) return 0;
  const int32_t num_cached_tokens = begin * spec_.block_size;
  if (options_.load_pays && !options_.load_pays(num_cached_tokens, count * spec_.block_size))
    return 0;
  bring_back(chain, begin, begin + count);
  return prefixes_.longest_hit_blocks(chain) - begin;
}

// --- Looking ---

KvStats KvManager::stats() const {
  KvStats stats;
  store_.fill(stats);
  stats.num_copied_total = tables_.num_copied_total();
  stats.num_reserved_slots =
      int64_t{stats.num_usable_blocks - stats.num_free_blocks} * spec_.block_size;
  stats.num_unused_slots = tables_.num_unused_slots();
  return stats;
}

void KvManager::snapshot(std::vector<KvBlockView>& out) const {
  const BlockPool& pool = store_.pool();
  out.assign(static_cast<size_t>(pool.num_blocks()), {});
  out[0].state = KvBlockState::kNull;
  for (int32_t i = 1; i < pool.num_blocks(); ++i) {
    KvBlockView& view = out[static_cast<size_t>(i)];
    view.ref_cnt = pool.ref_cnt(BlockId(i));
    view.registered = store_.cache().contains(BlockId(i));
    if (view.ref_cnt == 0) {
      view.state = view.registered ? KvBlockState::kCached : KvBlockState::kFree;
    } else {
      view.state = view.ref_cnt == 1 ? KvBlockState::kInUse : KvBlockState::kShared;
    }
  }
  tables_.for_each_entry(
      [&](RequestId owner, BlockId block) { out[static_cast<size_t>(block.value)].owner = owner; });
  out[0].owner = {};
}

}  // namespace quire
