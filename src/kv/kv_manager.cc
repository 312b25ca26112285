#include "kv/kv_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

bool any_window(const KvSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(),
                     [](const KvGroupSpec& group) { return group.kind == KvKind::kSlidingWindow; });
}

}  // namespace

KvManager::KvManager(KvSpec spec, int32_t num_blocks, KvOptions options)
    : spec_(std::move(spec)),
      options_(std::move(options)),
      windowed_(options_.reservation == KvReservation::kPaged && any_window(spec_)),
      pool_(num_blocks),
      cache_(num_blocks, spec_.block_size, options_.hash_seed),
      residency_(num_blocks, options_.residency_sample_rate, options_.max_residency_samples) {
  if (options_.num_host_blocks > 1)
    host_.emplace(options_.num_host_blocks, spec_.block_size, options_.hash_seed);
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
  constexpr int64_t kRecord = 128;  // in the pool and in the prefix cache
  return num_blocks * (kRecord + int64_t{block_size} * int64_t{sizeof(TokenId)});
}

int32_t KvManager::round_up_to_blocks(int64_t num_tokens) const {
  return static_cast<int32_t>((num_tokens + spec_.block_size - 1) / spec_.block_size);
}

void KvManager::begin_step(int64_t now_us) {
  now_us_ = now_us;
  copies_.clear();
  for (const BlockId block : pins_) unref(block);
  pins_.clear();
}

// --- Sequences ---

KvSequenceId KvManager::open(RequestId owner, const CacheKeys& keys) {
  if (free_sequences_.empty()) {
    free_sequences_.emplace_back(static_cast<int32_t>(sequences_.size()));
    sequences_.emplace_back().groups.resize(spec_.groups.size());
    for (GroupTable& table : sequences_.back().groups) {
      table.blocks.reserve(static_cast<size_t>(round_up_to_blocks(options_.max_sequence_tokens)));
    }
  }
  const KvSequenceId id = free_sequences_.back();
  free_sequences_.pop_back();
  Sequence& sequence = at(id);
  sequence.open = true;
  sequence.owner = owner;
  sequence.keys = cache_.acquire_keys(keys);
  return id;
}

void KvManager::close(KvSequenceId id) {
  Sequence& sequence = at(id);
  QUIRE_CHECK(sequence.open, "KV-2: sequence {} closed twice", id.value);
  release_tables(sequence);
  cache_.release_keys(sequence.keys);
  sequence.hashes.clear();
  sequence.open = false;
  free_sequences_.push_back(id);
}

void KvManager::free(KvSequenceId id) { release_tables(at(id)); }

void KvManager::release_tables(Sequence& sequence) {
  num_unused_slots_ -= num_unused_slots(sequence);
  // In reverse, so that the tail is evicted first: a prefix is useful without its tail, not the
  // other way round.
  for (size_t i = sequence.groups[0].blocks.size(); i-- > 0;) {
    for (GroupTable& table : sequence.groups) {
      if (table.blocks[i] != kNullBlock) unref(table.blocks[i]);
    }
  }
  for (GroupTable& table : sequence.groups) {
    table.blocks.clear();
    table.num_freed = table.num_sent = table.num_freed_sent = 0;
  }
  sequence.num_computed_tokens = 0;
  sequence.capacity_tokens = 0;
  sequence.num_committed = 0;
  sequence.tables_changed = true;
}

PrefixHit KvManager::fork_hit(KvSequenceId source_id, int32_t num_tokens) const {
  const Sequence& source = at(source_id);
  if (options_.reservation != KvReservation::kPaged || num_tokens <= 0 ||
      source.num_computed_tokens < num_tokens) {
    return {};
  }
  for (size_t g = 0; g < source.groups.size(); ++g) {
    if (first_needed_block(spec_.groups[g], spec_.block_size, num_tokens) <
        source.groups[g].num_freed)
      return {};
  }
  return {.num_tokens = num_tokens,
          .partial_block = num_tokens % spec_.block_size != 0,
          .from_fork = true,
          .fork_source = source_id};
}

// --- Growing ---

KvManager::Need KvManager::compute_need(Sequence& sequence, const AllocateArgs& args) const {
  const int64_t start = args.hit.num_tokens > 0 ? args.hit.num_tokens : args.num_computed_tokens;
  int64_t target = start + args.num_new_tokens + args.num_lookahead_tokens;
  if (options_.reservation == KvReservation::kContiguousMaxLen) {
    target = std::max<int64_t>(target, options_.max_sequence_tokens);
  }
  const int64_t full = std::max<int64_t>(target, args.num_full_tokens);
  Chain chain{sequence.keys, args.tokens, sequence.hashes};
  Need need{.table_size = round_up_to_blocks(target)};
  const int32_t num_hit_blocks = round_up_to_blocks(args.hit.num_tokens);
  for (int32_t g = 0; g < num_groups(); ++g) {
    const KvGroupSpec& group = spec_.groups[static_cast<size_t>(g)];
    const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    auto size = static_cast<int64_t>(table.blocks.size());
    int64_t held = size - table.num_freed;
    if (args.hit.num_tokens > 0) {
      const int32_t first = first_needed_block(group, spec_.block_size, args.hit.num_tokens);
      for (int32_t i = first; i < num_hit_blocks; ++i) {
        if (pool_.ref_cnt(hit_block(chain, args.hit, g, i)) == 0) ++need.num_hits_free;
      }
      // A block that ends inside the hit is copied: its copy is a new block.
      size = args.hit.num_tokens / spec_.block_size;
      held = std::max<int64_t>(0, size - first);
    }
    const int64_t grow = std::max<int64_t>(0, need.table_size - size);
    need.num_new += grow;
    need.num_full += full == target ? grow : std::max(grow, most_blocks(group, full, start) - held);
  }
  return need;
}

bool KvManager::allocate(KvSequenceId id, const AllocateArgs& args) {
  Sequence& sequence = at(id);
  const bool adopts = args.hit.num_tokens > 0;
  QUIRE_CHECK(!adopts || sequence.groups[0].blocks.empty(),
              "a hit is adopted by an empty sequence only");
  if (windowed_) free_out_of_window(sequence);
  const int64_t target =
      int64_t{args.num_computed_tokens} + args.num_new_tokens + args.num_lookahead_tokens;
  if (!adopts && target <= sequence.capacity_tokens) return true;

  const Need need = compute_need(sequence, args);
  const int64_t available =
      int64_t{pool_.num_free()} - need.num_hits_free - args.num_reserved_blocks;
  if (std::max(need.num_new, need.num_full) > available) return false;
  num_unused_slots_ -= num_unused_slots(sequence);
  if (adopts) adopt_hit(sequence, args);
  for (GroupTable& table : sequence.groups) {
    while (static_cast<int32_t>(table.blocks.size()) < need.table_size)
      table.blocks.push_back(take_block());
  }
  sequence.capacity_tokens = need.table_size * spec_.block_size;
  sequence.tables_changed = true;
  num_unused_slots_ += num_unused_slots(sequence);
  return true;
}

void KvManager::adopt_hit(Sequence& sequence, const AllocateArgs& args) {
  const PrefixHit& hit = args.hit;
  Chain chain{sequence.keys, args.tokens, sequence.hashes};
  const int32_t num_full = hit.num_tokens / spec_.block_size;
  const size_t first_pin = pins_.size();
  // Everything that is kept is referenced before anything is taken, or taking could evict it.
  for (int32_t g = 0; g < num_groups(); ++g) {
    GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    const int32_t first = std::min(
        num_full,
        first_needed_block(spec_.groups[static_cast<size_t>(g)], spec_.block_size, hit.num_tokens));
    table.blocks.assign(static_cast<size_t>(first), kNullBlock);
    for (int32_t i = first; i < num_full; ++i) {
      table.blocks.push_back(hit_block(chain, hit, g, i));
      touch(table.blocks.back());
    }
    table.num_freed = first;
    if (hit.partial_block) {
      pins_.push_back(hit_block(chain, hit, g, num_full));
      touch(pins_.back());
    }
  }
  sequence.num_computed_tokens = hit.num_tokens;
  sequence.num_committed = num_full;
  if (!hit.partial_block) return;
  for (size_t g = 0; g < sequence.groups.size(); ++g) {
    sequence.groups[g].blocks.push_back(take_block());
    copies_.push_back(
        {.source = pins_[first_pin + g], .destination = sequence.groups[g].blocks.back()});
    ++totals_.num_copied_total;
  }
}

void KvManager::free_out_of_window(Sequence& sequence) {
  for (size_t g = 0; g < sequence.groups.size(); ++g) {
    GroupTable& table = sequence.groups[g];
    const int32_t first = std::min(
        first_needed_block(spec_.groups[g], spec_.block_size, sequence.num_computed_tokens),
        static_cast<int32_t>(table.blocks.size()));
    for (int32_t i = first; i-- > table.num_freed;) {
      unref(table.blocks[static_cast<size_t>(i)]);
      table.blocks[static_cast<size_t>(i)] = kNullBlock;
    }
    if (first > table.num_freed) sequence.tables_changed = true;
    table.num_freed = std::max(table.num_freed, first);
  }
}

// What taking and registering a block touches lies anywhere in tables larger than a core's caches:
// it is asked for a few blocks ahead, in the order in which the free list gives them out.
void KvManager::prefetch_next_blocks() const {
  constexpr int kSlotAhead = 3;
  constexpr int kBlockAhead = 8;
  BlockId block = pool_.first_free();
  for (int i = 0; i < kSlotAhead; ++i) block = pool_.next_free(block);
  if (cache_.contains(block)) cache_.prefetch_slot(block);
  for (int i = kSlotAhead; i < kBlockAhead; ++i) block = pool_.next_free(block);
  cache_.prefetch_block(block);
}

BlockId KvManager::take_block() {
  const BlockId block = pool_.take();
  prefetch_next_blocks();
  if (cache_.contains(block)) {
    const BlockContent content = cache_.content(block);
    const BlockRemoved removed{.hash = content.hash, .group = content.group};
    if (host_) offload(block, content);
    if (cache_.erase(block)) emit(removed);
    residency_.on_evict(block, now_us_);
    ++totals_.num_evicted_total;
  }
  residency_.on_allocate(block, now_us_);
  ++totals_.num_allocated_total;
  return block;
}

void KvManager::offload(BlockId block, const BlockContent& content) {
  const std::optional<BlockId> to = host_->keep(content, cache_.keys(content.keys));
  if (!to) return;
  host_copies_.push_back({.block = block, .host_block = *to, .to_host = true});
  ++totals_.num_offloaded_total;
}

void KvManager::touch(BlockId block) {
  pool_.ref(block);
  residency_.on_touch(block, now_us_);
}

void KvManager::unref(BlockId block) {
  pool_.unref(block, cache_.contains(block) ? FreeEnd::kBack : FreeEnd::kFront);
  if (pool_.ref_cnt(block) == 0) residency_.on_free(block, now_us_);
}

void KvManager::commit(KvSequenceId id, std::span<const TokenId> tokens,
                       int32_t num_computed_tokens) {
  Sequence& sequence = at(id);
  QUIRE_CHECK(num_computed_tokens <= sequence.capacity_tokens &&
                  num_computed_tokens <= static_cast<int32_t>(tokens.size()),
              "KV-5: {} of {} tokens committed into {} slots", num_computed_tokens, tokens.size(),
              sequence.capacity_tokens);
  // Tables of all groups are as long as one another, and not empty.
  num_unused_slots_ -= int64_t{num_computed_tokens - sequence.num_computed_tokens} * num_groups();
  sequence.num_computed_tokens = num_computed_tokens;
  const int32_t num_full = num_computed_tokens / spec_.block_size;
  if (num_full == sequence.num_committed) return;
  if (reads_cache()) {
    constexpr int32_t kAhead = 4;  // blocks whose memory is asked for before it is written
    Chain chain{sequence.keys, tokens, sequence.hashes};
    extend(chain, num_full);
    for (int32_t g = 0; g < num_groups(); ++g) {
      const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
      for (int32_t i = std::max(sequence.num_committed, table.num_freed); i < num_full; ++i) {
        const BlockContent content{
            .group = g,
            .keys = sequence.keys,
            .hash = sequence.hashes[static_cast<size_t>(i)],
            .parent =
                i == 0 ? cache_.root(sequence.keys) : sequence.hashes[static_cast<size_t>(i) - 1],
            .tokens = tokens.subspan(static_cast<size_t>(i * spec_.block_size),
                                     static_cast<size_t>(spec_.block_size))};
        if (i + kAhead < num_full)
          cache_.prefetch_block(table.blocks[static_cast<size_t>(i + kAhead)]);
        register_block(content, table.blocks[static_cast<size_t>(i)], i);
      }
    }
  }
  sequence.num_committed = num_full;
}

void KvManager::register_block(const BlockContent& content, BlockId block, int32_t index) {
  if (!cache_.insert(block, content) || !options_.enable_events) return;
  emit(BlockStored{.hash = content.hash,
                   .parent = content.parent,
                   .token_ids = {content.tokens.begin(), content.tokens.end()},
                   .group = content.group,
                   .block_index = index});
}

// --- For the plan ---

void KvManager::append_changes(Sequence& sequence, int32_t request_index, bool whole_table,
                               std::vector<BlockTableUpdate>& out) {
  sequence.tables_changed = false;
  for (int32_t g = 0; g < num_groups(); ++g) {
    GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    if (whole_table) table.num_sent = table.num_freed_sent = 0;
    const int32_t freed_end = std::min(table.num_freed, table.num_sent);
    for (int32_t i = table.num_freed_sent; i < freed_end; ++i) {
      out.push_back(
          {.request_index = request_index, .group = g, .logical_index = i, .block = kNullBlock});
    }
    const auto size = static_cast<int32_t>(table.blocks.size());
    for (int32_t i = table.num_sent; i < size; ++i) {
      out.push_back({.request_index = request_index,
                     .group = g,
                     .logical_index = i,
                     .block = table.blocks[static_cast<size_t>(i)]});
    }
    table.num_sent = size;
    table.num_freed_sent = table.num_freed;
  }
}

std::span<const BlockId> KvManager::block_table(KvSequenceId sequence, int32_t group) const {
  return at(sequence).groups[static_cast<size_t>(group)].blocks;
}

void KvManager::emit(KvEvent event) {
  if (!options_.enable_events) return;
  if (static_cast<int32_t>(events_.size()) >= options_.max_events) {
    ++totals_.num_lost_events;
    return;
  }
  events_.push_back(std::move(event));
}

Status KvManager::reset_prefix_cache() {
  copies_.clear();
  for (const BlockId block : pins_) unref(block);
  pins_.clear();
  if (pool_.num_free() != num_usable_blocks()) {
    return unavailable("prefix cache reset: expected all {} blocks free, got {} in use",
                       num_usable_blocks(), num_usable_blocks() - pool_.num_free());
  }
  cache_.clear();
  if (host_) host_->clear();
  emit(AllBlocksCleared{});
  return {};
}

}  // namespace quire
