#include "kv/tables/block_tables.h"

#include <algorithm>

#include "base/check.h"
#include "kv/groups/group_policy.h"

namespace quire {

BlockTables::BlockTables(const KvSpec& spec, const KvOptions& options, BlockStores& stores,
                         const PrefixLookup& lookup)
    : options_(options),
      sizing_(spec, options),
      stores_(stores),
      lookup_(lookup),
      sequences_(sizing_, options.max_sequence_tokens),
      growth_(sizing_, stores_, lookup_, sequences_, copies_) {}

// --- Sequences ---

SequenceKeys BlockTables::close(KvSequenceId id) {
  free(id);
  return sequences_.close(id);
}

void BlockTables::free(KvSequenceId id) {
  KvSequence& sequence = sequences_.at(id);
  if (!copies_.all().empty()) {
    for (int32_t g = 0; g < sizing_.num_groups(); ++g)
      copies_.forget_copies_to(sizing_.group(g).pool(), sequence.table(g).blocks);
  }
  num_unused_slots_ -= num_unused_slots(sequence, sizing_);
  // Blocks are freed in reverse, so that the tail is evicted first: a prefix is useful without its
  // tail, but not the other way round. The tables of one pool have the same length.
  size_t longest = 0;
  for (const GroupTable& table : sequence.groups) longest = std::max(longest, table.blocks.size());
  for (size_t i = longest; i-- > 0;) {
    for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
      const GroupTable& table = sequence.table(g);
      if (i < table.blocks.size() && table.blocks[i] != kNullBlock) store(g).unref(table.blocks[i]);
    }
  }
  for (GroupTable& table : sequence.groups) {
    table.blocks.clear();
    table.num_freed = table.num_sent = table.num_freed_sent = table.num_committed = 0;
  }
  sequence.num_computed_tokens = 0;
  sequence.capacity_tokens = 0;
  sequence.tables_changed = true;
}

// --- Growing ---

PrefixHit BlockTables::fork_hit(KvSequenceId source_id, int32_t num_tokens) const {
  const KvSequence& source = sequences_.at(source_id);
  if (options_.reservation != KvReservation::kPaged || num_tokens <= 0 ||
      source.num_computed_tokens < num_tokens) {
    return {};
  }
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    const KvGroupSpec& group = sizing_.group(g);
    const int32_t block_size = sizing_.block_size(g);
    if (first_needed_block(group, block_size, num_tokens) < source.table(g).num_freed ||
        !keeps_content_after(group, block_size, num_tokens, source.num_computed_tokens)) {
      return {};
    }
  }
  return {.num_tokens = num_tokens,
          .partial_block = lookup_.ends_inside_block(num_tokens),
          .from_fork = true,
          .fork_source = source_id};
}

bool BlockTables::allocate(KvSequenceId id, const AllocateArgs& args) {
  KvSequence& sequence = sequences_.at(id);
  const bool adopts = args.hit.num_tokens > 0;
  QUIRE_CHECK(!adopts || sequence.groups[0].blocks.empty(),
              "a hit is adopted by an empty sequence only");
  if (sizing_.blocks_leave()) growth_.free_out_of_window(sequence);
  const int64_t target =
      int64_t{args.num_computed_tokens} + args.num_new_tokens + args.num_lookahead_tokens;
  if (!adopts && target <= sequence.capacity_tokens) return true;
  const int64_t num_unused = num_unused_slots(sequence, sizing_);
  if (!growth_.grow(sequence, args)) return false;
  num_unused_slots_ += num_unused_slots(sequence, sizing_) - num_unused;
  return true;
}

void BlockTables::commit(KvSequenceId id, std::span<const TokenId> tokens,
                         int32_t num_computed_tokens) {
  KvSequence& sequence = sequences_.at(id);
  QUIRE_CHECK(num_computed_tokens <= sequence.capacity_tokens &&
                  num_computed_tokens <= static_cast<int32_t>(tokens.size()),
              "KV-5: {} of {} tokens committed into {} slots", num_computed_tokens, tokens.size(),
              sequence.capacity_tokens);
  // Tables of all groups cover the same tokens, and are not empty.
  num_unused_slots_ -=
      int64_t{num_computed_tokens - sequence.num_computed_tokens} * sizing_.num_attention_groups();
  sequence.num_computed_tokens = num_computed_tokens;
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    GroupTable& table = sequence.table(g);
    const int32_t num_full = num_computed_tokens / sizing_.block_size(g);
    if (num_full == table.num_committed) continue;
    if (options_.reads_cache()) register_blocks(sequence, tokens, g, num_full);
    table.num_committed = num_full;
  }
}

// Registers those of the first `end` blocks of group g that are not yet committed.
void BlockTables::register_blocks(KvSequence& sequence, std::span<const TokenId> tokens, int32_t g,
                                  int32_t end) {
  constexpr int32_t kAhead = 4;  // blocks to prefetch before they are written
  BlockChain chain{sequence.keys, tokens, sequence.hashes};
  lookup_.extend(chain, sizing_.group(g).pool(), end);
  const GroupTable& table = sequence.table(g);
  for (int32_t i = std::max(table.num_committed, table.num_freed); i < end; ++i) {
    if (i + kAhead < end)
      store(g).cache().prefetch_block(table.blocks[static_cast<size_t>(i + kAhead)]);
    store(g).register_block(lookup_.content(chain, g, i), table.blocks[static_cast<size_t>(i)], i);
  }
}

void BlockTables::hold(KvSequenceId id, std::span<const TokenId> tokens, const PrefixHit& hit,
                       BlockHold& hold) {
  BlockChain blocks = chain(id, tokens);
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    const int32_t first =
        first_needed_block(sizing_.group(g), sizing_.block_size(g), hit.num_tokens);
    for (int32_t i = first; i < sizing_.round_up_to_blocks(g, hit.num_tokens); ++i)
      hold.add(store(g), growth_.hit_block(blocks, hit, g, i));
  }
}

// --- Needs ---

BlockCounts BlockTables::blocks_missing(KvSequenceId id, int64_t num_tokens) const {
  const KvSequence& sequence = sequences_.at(id);
  BlockCounts sum;
  if (num_tokens <= sequence.capacity_tokens) return sum;
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    const int64_t most = sizing_.most_blocks(g, num_tokens, sequence.num_computed_tokens);
    sum[sizing_.group(g).pool()] += std::max<int64_t>(0, most - sequence.table(g).num_held());
  }
  return sum;
}

BlockCounts BlockTables::num_exclusive_blocks(KvSequenceId id) const {
  BlockCounts counts;
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    const BlockPool& pool = store(g).pool();
    for (const BlockId block : table(id, g))
      counts[sizing_.group(g).pool()] += block != kNullBlock && pool.ref_cnt(block) == 1 ? 1 : 0;
  }
  return counts;
}

int32_t BlockTables::num_shared_tokens(KvSequenceId id) const {
  const std::span<const BlockId> blocks = table(id, 0);
  int32_t count = 0;
  while (count < std::ssize(blocks)) {
    const BlockId block = blocks[static_cast<size_t>(count)];
    if (block != kNullBlock && store(0).pool().ref_cnt(block) < 2) break;
    ++count;
  }
  return std::min(count * sizing_.block_size(0), sequences_.at(id).num_computed_tokens);
}

void BlockTables::fill(KvStats& stats) const {
  stats.num_copied_total = copies_.num_total();
  stats.num_unused_slots = num_unused_slots_;
}

// --- For the plan ---

void BlockTables::append_changes(KvSequence& sequence, int32_t request_index, bool whole_table,
                                 std::vector<BlockTableUpdate>& out) {
  sequence.tables_changed = false;
  for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
    GroupTable& table = sequence.table(g);
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

}  // namespace quire
