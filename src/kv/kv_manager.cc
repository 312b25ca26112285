#include "kv/kv_manager.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"

namespace quire {

KvManager::KvManager(KvSpec spec, int32_t num_blocks, KvOptions options)
    : spec_(std::move(spec)),
      options_(std::move(options)),
      stores_(spec_,
              BlockCounts::of(KvPool::kAttention, num_blocks) +
                  BlockCounts::of(KvPool::kState, options_.num_state_blocks),
              options_),
      prefixes_(spec_, stores_),
      tables_(spec_, options_, stores_, prefixes_) {
  QUIRE_CHECK(!spec_.groups.empty(), "a KvSpec needs a group");
  for (const KvGroupSpec& group : spec_.groups) {
    QUIRE_CHECK(group.kind != KvKind::kSlidingWindow || group.sliding_window >= 1,
                "a window of {} tokens", group.sliding_window);
    QUIRE_CHECK(spec_.pool(group.pool()).block_size >= 1, "blocks of {} tokens",
                spec_.pool(group.pool()).block_size);
  }
  QUIRE_CHECK(!spec_.uses(KvPool::kState) || spec_.state.block_size % spec_.block_size == 0,
              "snapshots every {} tokens, expected a multiple of {}", spec_.state.block_size,
              spec_.block_size);
  QUIRE_CHECK(options_.reservation == KvReservation::kPaged || options_.max_sequence_tokens > 0,
              "contiguous reservation needs max_sequence_tokens");
  if (stores_.has_host_tier()) promotion_.emplace(spec_, options_, stores_, prefixes_);
  if (options_.files.files == nullptr) return;
  QUIRE_CHECK(stores_.has_host_tier(), "files without blocks of host memory");
  files_.emplace(spec_, options_.files, stores_, prefixes_);
}

int64_t kv_book_bytes(int32_t num_blocks, int32_t block_size) {
  constexpr int64_t kRecord = 132;  // in the pool, in the prefix cache and in the hold counts
  return num_blocks * (kRecord + int64_t{block_size} * int64_t{sizeof(TokenId)});
}

void KvManager::begin_step(int64_t now_us) {
  stores_.for_each([now_us](BlockStore& store) { store.set_time(now_us); });
  tables_.begin_step();
  if (files_) files_->poll(now_us);
}

KvSequenceId KvManager::open(RequestId owner, const CacheKeys& keys,
                             std::span<const MediaSpan> media) {
  const KvSequenceId sequence = tables_.open(owner, stores_.keys().acquire(keys, media));
  if (files_) files_->open(sequence);
  return sequence;
}

void KvManager::close(KvSequenceId sequence) {
  if (files_) files_->close(sequence);
  stores_.keys().release(tables_.close(sequence));
}

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
  BlockHold hold;
  tables_.hold(sequence, tokens, hit, hold);
  return hold;
}

KvProbe KvManager::probe(std::span<const TokenId> tokens, const CacheKeys& keys,
                         std::span<const MediaSpan> media) const {
  if (!options_.reads_cache()) return {};
  const CacheKeyTable::Known known = stores_.keys().find(keys, media);
  const auto num_known = static_cast<size_t>(known.num_tokens);
  BlockHashes hashes;
  BlockChain chain{known.keys, tokens.first(std::min(tokens.size(), num_known)), hashes};
  const int32_t num_tokens = prefixes_.longest_hit_tokens(chain);
  return {.num_tokens = num_tokens, .num_blocks = num_tokens / spec_.block_size};
}

Status KvManager::reset_prefix_cache() {
  tables_.begin_step();
  const int64_t num_usable = stores_.num_usable().total();
  const int64_t num_free = stores_.num_free().total();
  if (num_free != num_usable) {
    return unavailable("prefix cache reset: expected all {} blocks free, got {} in use", num_usable,
                       num_usable - num_free);
  }
  if (files_) files_->forget_copies();
  stores_.for_each([](BlockStore& store) { store.clear(); });
  return {};
}

// --- Host tier ---

void KvManager::take_host_copies(uint64_t step_id, std::vector<HostBlockCopy>& out) {
  out.clear();
  stores_.for_each([&out](BlockStore& store) {
    if (store.host() != nullptr) store.host()->take(out);
  });
  if (files_ && !out.empty()) files_->on_copies_taken(step_id);
}

int32_t KvManager::promote(KvSequenceId sequence, std::span<const TokenId> tokens) {
  if (!promotion_ || !options_.reads_cache() || tokens.size() < 2) return 0;
  BlockChain chain = tables_.chain(sequence, tokens.first(tokens.size() - 1));
  return promotion_->promote(chain);
}

// --- Files ---

bool KvManager::load_from_files(KvSequenceId sequence, std::span<const TokenId> tokens) {
  if (!files_ || !options_.reads_cache() || tokens.size() < 2) return false;
  BlockChain chain = tables_.chain(sequence, tokens.first(tokens.size() - 1));
  const int32_t num_cached = prefixes_.longest_hit_tokens(chain) / spec_.block_size;
  return files_->load(
      sequence, chain,
      {.num_usable_blocks = num_cached,
       .num_blocks = num_cached + promotion_->num_promotable(chain, num_cached),
       .has_snapshot = [&](int32_t index) { return promotion_->has_snapshot(chain, index); }});
}

void KvManager::store_in_files(KvSequenceId sequence, std::span<const TokenId> tokens, bool whole) {
  if (!files_ || !options_.reads_cache()) return;
  BlockChain chain = tables_.chain(sequence, tokens);
  files_->store(sequence, chain, whole ? FileTier::Tail::kWritten : FileTier::Tail::kLeft);
}

// --- Views ---

KvStats KvManager::stats(KvPool pool) const {
  KvStats stats;
  if (!stores_.uses(pool)) return stats;
  stores_.at(pool).fill(stats);
  if (pool != KvPool::kAttention) return stats;
  tables_.fill(stats);
  stats.num_reserved_slots =
      int64_t{stats.num_usable_blocks - stats.num_free_blocks} * spec_.block_size;
  return stats;
}

void KvManager::drain_events(std::vector<KvEvent>& out) {
  out.clear();
  stores_.for_each([&out](BlockStore& store) { store.drain_events(out); });
}

void KvManager::drain_residency(std::vector<ResidencySample>& out) {
  out.clear();
  stores_.for_each([&out](BlockStore& store) { store.drain_residency(out); });
}

}  // namespace quire
