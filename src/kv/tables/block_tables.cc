#include "kv/tables/block_tables.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kv/groups/group_policy.h"

namespace quire {
namespace {

bool any_frees(const KvSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(),
                     [](const KvGroupSpec& group) { return frees_while_growing(group); });
}

int64_t num_attention_groups(const KvSpec& spec) {
  int64_t count = 0;
  for (const KvGroupSpec& group : spec.groups) count += group.pool() == KvPool::kAttention;
  return count;
}

}  // namespace

BlockTables::BlockTables(const KvSpec& spec, const KvOptions& options, BlockStores& stores)
    : spec_(spec),
      options_(options),
      frees_(options.reservation == KvReservation::kPaged && any_frees(spec)),
      stores_(stores),
      lookup_(spec, stores) {}

void BlockTables::begin_step() {
  copies_.clear();
  copy_sources_.release();
}

// --- Sequences ---

KvSequenceId BlockTables::open(RequestId owner, SequenceKeys keys) {
  if (free_sequences_.empty()) {
    free_sequences_.emplace_back(static_cast<int32_t>(sequences_.size()));
    std::vector<GroupTable>& tables = sequences_.emplace_back().groups;
    tables.resize(spec_.groups.size());
    for (int32_t g = 0; g < num_groups(); ++g) {
      tables[static_cast<size_t>(g)].blocks.reserve(
          static_cast<size_t>(round_up_to_blocks(g, options_.max_sequence_tokens)));
    }
  }
  const KvSequenceId id = free_sequences_.back();
  free_sequences_.pop_back();
  Sequence& sequence = at(id);
  sequence.open = true;
  sequence.owner = owner;
  sequence.keys = std::move(keys);
  return id;
}

SequenceKeys BlockTables::close(KvSequenceId id) {
  Sequence& sequence = at(id);
  QUIRE_CHECK(sequence.open, "KV-2: sequence {} closed twice", id.value);
  free(id);
  for (std::vector<BlockHash>& hashes : sequence.hashes) hashes.clear();
  sequence.open = false;
  free_sequences_.push_back(id);
  return std::move(sequence.keys);
}

void BlockTables::free(KvSequenceId id) {
  Sequence& sequence = at(id);
  if (!copies_.empty()) forget_copies_to(sequence);
  num_unused_slots_ -= num_unused_slots(sequence);
  // In reverse, so that the tail is evicted first: a prefix is useful without its tail, not the
  // other way round. Tables of one pool are of the same length.
  size_t longest = 0;
  for (const GroupTable& table : sequence.groups) longest = std::max(longest, table.blocks.size());
  for (size_t i = longest; i-- > 0;) {
    for (int32_t g = 0; g < num_groups(); ++g) {
      const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
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
  const Sequence& source = at(source_id);
  if (options_.reservation != KvReservation::kPaged || num_tokens <= 0 ||
      source.num_computed_tokens < num_tokens) {
    return {};
  }
  for (int32_t g = 0; g < num_groups(); ++g) {
    const int32_t first = first_needed_block(group(g), block_size(g), num_tokens);
    if (first < source.groups[static_cast<size_t>(g)].num_freed ||
        !keeps_content_after(group(g), block_size(g), num_tokens, source.num_computed_tokens)) {
      return {};
    }
  }
  return {.num_tokens = num_tokens,
          .partial_block = lookup_.ends_inside_block(num_tokens),
          .from_fork = true,
          .fork_source = source_id};
}

BlockId BlockTables::hit_block(BlockChain& chain, const PrefixHit& hit, int32_t group,
                               int32_t index) const {
  if (hit.from_fork) {
    return at(hit.fork_source)
        .groups[static_cast<size_t>(group)]
        .blocks[static_cast<size_t>(index)];
  }
  const std::optional<BlockId> block = lookup_.find(chain, group, index);
  QUIRE_CHECK(block.has_value(), "KV-4: block {} of a hit left the cache before it was adopted",
              index);
  return *block;
}

BlockTables::Need BlockTables::compute_need(Sequence& sequence, const AllocateArgs& args) const {
  const int32_t num_hit = args.hit.num_tokens;
  const int64_t start = num_hit > 0 ? num_hit : args.num_computed_tokens;
  Need need{.num_tokens = start + args.num_new_tokens + args.num_lookahead_tokens};
  if (options_.reservation == KvReservation::kContiguousMaxLen) {
    need.num_tokens = std::max<int64_t>(need.num_tokens, options_.max_sequence_tokens);
  }
  const int64_t full = std::max<int64_t>(need.num_tokens, args.num_full_tokens);
  BlockChain chain{sequence.keys, args.tokens, sequence.hashes};
  for (int32_t g = 0; g < num_groups(); ++g) {
    const KvPool pool = group(g).pool();
    const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    auto size = static_cast<int64_t>(table.blocks.size());
    int64_t held = size - table.num_freed;
    if (num_hit > 0) {
      const int32_t first = first_needed_block(group(g), block_size(g), num_hit);
      for (int32_t i = first; i < round_up_to_blocks(g, num_hit); ++i) {
        if (store(g).pool().ref_cnt(hit_block(chain, args.hit, g, i)) == 0)
          ++need.num_hits_free[pool];
      }
      // A block that ends inside the hit is copied: its copy is a new block.
      size = num_hit / block_size(g);
      held = std::max<int64_t>(0, size - first);
    }
    const int64_t grow = std::max<int64_t>(0, round_up_to_blocks(g, need.num_tokens) - size);
    need.num_new[pool] += grow;
    need.num_full[pool] +=
        full == need.num_tokens ? grow : std::max(grow, most_blocks(g, full, start) - held);
  }
  return need;
}

// A pool that nothing is taken from may have less than its reserve.
bool BlockTables::has_room(const Need& need, const BlockCounts& num_reserved_blocks) const {
  const BlockCounts available = stores_.num_free() - need.num_hits_free - num_reserved_blocks;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    const int64_t most = std::max(need.num_new[pool], need.num_full[pool]);
    if (most + need.num_hits_free[pool] > 0 && most > available[pool]) return false;
  }
  return true;
}

bool BlockTables::allocate(KvSequenceId id, const AllocateArgs& args) {
  Sequence& sequence = at(id);
  const bool adopts = args.hit.num_tokens > 0;
  QUIRE_CHECK(!adopts || sequence.groups[0].blocks.empty(),
              "a hit is adopted by an empty sequence only");
  if (frees_) free_out_of_window(sequence);
  const int64_t target =
      int64_t{args.num_computed_tokens} + args.num_new_tokens + args.num_lookahead_tokens;
  if (!adopts && target <= sequence.capacity_tokens) return true;

  const Need need = compute_need(sequence, args);
  if (!has_room(need, args.num_reserved_blocks)) return false;
  num_unused_slots_ -= num_unused_slots(sequence);
  if (adopts) adopt_hit(sequence, args);
  sequence.capacity_tokens = std::numeric_limits<int32_t>::max();
  for (int32_t g = 0; g < num_groups(); ++g) {
    std::vector<BlockId>& blocks = sequence.groups[static_cast<size_t>(g)].blocks;
    const int32_t size = round_up_to_blocks(g, need.num_tokens);
    while (static_cast<int32_t>(blocks.size()) < size) blocks.push_back(store(g).take());
    sequence.capacity_tokens = std::min(sequence.capacity_tokens, size * block_size(g));
  }
  sequence.tables_changed = true;
  num_unused_slots_ += num_unused_slots(sequence);
  return true;
}

void BlockTables::adopt_hit(Sequence& sequence, const AllocateArgs& args) {
  const PrefixHit& hit = args.hit;
  BlockChain chain{sequence.keys, args.tokens, sequence.hashes};
  // Everything that is kept is referenced before anything is taken, or taking could evict it.
  for (int32_t g = 0; g < num_groups(); ++g) {
    GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    const int32_t num_full = hit.num_tokens / block_size(g);
    const int32_t first =
        std::min(num_full, first_needed_block(group(g), block_size(g), hit.num_tokens));
    table.blocks.assign(static_cast<size_t>(first), kNullBlock);
    for (int32_t i = first; i < num_full; ++i) {
      table.blocks.push_back(hit_block(chain, hit, g, i));
      store(g).touch(table.blocks.back());
    }
    table.num_freed = first;
    table.num_committed = num_full;
  }
  sequence.num_computed_tokens = hit.num_tokens;
  if (hit.partial_block) copy_partial_blocks(sequence, chain, hit);
}

// Gives the sequence blocks of its own for those that the hit ends in.
void BlockTables::copy_partial_blocks(Sequence& sequence, BlockChain& chain, const PrefixHit& hit) {
  const size_t first_copy = copies_.size();
  for (int32_t g = 0; g < num_groups(); ++g) {
    if (hit.num_tokens % block_size(g) == 0) continue;
    const BlockId source = hit_block(chain, hit, g, hit.num_tokens / block_size(g));
    copy_sources_.add(store(g), source);
    store(g).note_access(source);
    copies_.push_back({.source = source, .pool = group(g).pool()});
  }
  size_t copy = first_copy;
  for (int32_t g = 0; g < num_groups(); ++g) {
    if (hit.num_tokens % block_size(g) == 0) continue;
    std::vector<BlockId>& blocks = sequence.groups[static_cast<size_t>(g)].blocks;
    blocks.push_back(store(g).take());
    copies_[copy++].destination = blocks.back();
    ++num_copied_total_;
  }
}

// A block that is given back may be given to another sequence in the same step.
void BlockTables::forget_copies_to(const Sequence& sequence) {
  std::erase_if(copies_, [&](const BlockCopy& copy) {
    for (int32_t g = 0; g < num_groups(); ++g) {
      const std::vector<BlockId>& blocks = sequence.groups[static_cast<size_t>(g)].blocks;
      if (group(g).pool() == copy.pool &&
          std::find(blocks.begin(), blocks.end(), copy.destination) != blocks.end())
        return true;
    }
    return false;
  });
}

void BlockTables::free_out_of_window(Sequence& sequence) {
  for (int32_t g = 0; g < num_groups(); ++g) {
    GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    const int32_t first =
        std::min(first_needed_block(group(g), block_size(g), sequence.num_computed_tokens),
                 static_cast<int32_t>(table.blocks.size()));
    for (int32_t i = first; i-- > table.num_freed;) {
      store(g).unref(table.blocks[static_cast<size_t>(i)]);
      table.blocks[static_cast<size_t>(i)] = kNullBlock;
    }
    if (first > table.num_freed) sequence.tables_changed = true;
    table.num_freed = std::max(table.num_freed, first);
  }
}

void BlockTables::commit(KvSequenceId id, std::span<const TokenId> tokens,
                         int32_t num_computed_tokens) {
  Sequence& sequence = at(id);
  QUIRE_CHECK(num_computed_tokens <= sequence.capacity_tokens &&
                  num_computed_tokens <= static_cast<int32_t>(tokens.size()),
              "KV-5: {} of {} tokens committed into {} slots", num_computed_tokens, tokens.size(),
              sequence.capacity_tokens);
  // Tables of all groups cover the same tokens, and are not empty.
  num_unused_slots_ -=
      int64_t{num_computed_tokens - sequence.num_computed_tokens} * num_attention_groups(spec_);
  sequence.num_computed_tokens = num_computed_tokens;
  for (int32_t g = 0; g < num_groups(); ++g) {
    GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    const int32_t num_full = num_computed_tokens / block_size(g);
    if (num_full == table.num_committed) continue;
    if (options_.reads_cache()) register_blocks(sequence, tokens, g, num_full);
    table.num_committed = num_full;
  }
}

// Registers what is not committed of the first `end` blocks of group g.
void BlockTables::register_blocks(Sequence& sequence, std::span<const TokenId> tokens, int32_t g,
                                  int32_t end) {
  constexpr int32_t kAhead = 4;  // blocks whose memory is asked for before it is written
  BlockChain chain{sequence.keys, tokens, sequence.hashes};
  lookup_.extend(chain, group(g).pool(), end);
  const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
  for (int32_t i = std::max(table.num_committed, table.num_freed); i < end; ++i) {
    if (i + kAhead < end)
      store(g).cache().prefetch_block(table.blocks[static_cast<size_t>(i + kAhead)]);
    store(g).register_block(lookup_.content(chain, g, i), table.blocks[static_cast<size_t>(i)], i);
  }
}

void BlockTables::hold(KvSequenceId id, std::span<const TokenId> tokens, const PrefixHit& hit,
                       BlockHold& hold) {
  BlockChain blocks = chain(id, tokens);
  for (int32_t g = 0; g < num_groups(); ++g) {
    const int32_t first = first_needed_block(group(g), block_size(g), hit.num_tokens);
    for (int32_t i = first; i < round_up_to_blocks(g, hit.num_tokens); ++i) {
      hold.add(store(g), hit_block(blocks, hit, g, i));
    }
  }
}

// --- For the plan ---

void BlockTables::append_changes(Sequence& sequence, int32_t request_index, bool whole_table,
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

}  // namespace quire
