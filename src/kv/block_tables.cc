#include "kv/block_tables.h"

#include <algorithm>

#include "kv/group_policy.h"

namespace quire {
namespace {

bool any_frees(const KvSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(),
                     [](const KvGroupSpec& group) { return frees_while_growing(group); });
}

}  // namespace

BlockTables::BlockTables(const KvSpec& spec, const KvOptions& options, BlockStore& store)
    : spec_(spec),
      options_(options),
      frees_(options.reservation == KvReservation::kPaged && any_frees(spec)),
      store_(store),
      lookup_(spec, store.cache()),
      copy_sources_(store) {}

int32_t BlockTables::round_up_to_blocks(int64_t num_tokens) const {
  return static_cast<int32_t>((num_tokens + spec_.block_size - 1) / spec_.block_size);
}

void BlockTables::begin_step() {
  copies_.clear();
  copy_sources_.release();
}

// --- Sequences ---

KvSequenceId BlockTables::open(RequestId owner, int32_t keys) {
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
  sequence.keys = keys;
  return id;
}

int32_t BlockTables::close(KvSequenceId id) {
  Sequence& sequence = at(id);
  QUIRE_CHECK(sequence.open, "KV-2: sequence {} closed twice", id.value);
  free(id);
  sequence.hashes.clear();
  sequence.open = false;
  free_sequences_.push_back(id);
  return sequence.keys;
}

void BlockTables::free(KvSequenceId id) {
  Sequence& sequence = at(id);
  num_unused_slots_ -= num_unused_slots(sequence);
  // In reverse, so that the tail is evicted first: a prefix is useful without its tail, not the
  // other way round.
  for (size_t i = sequence.groups[0].blocks.size(); i-- > 0;) {
    for (GroupTable& table : sequence.groups) {
      if (table.blocks[i] != kNullBlock) store_.unref(table.blocks[i]);
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

// --- Growing ---

PrefixHit BlockTables::fork_hit(KvSequenceId source_id, int32_t num_tokens) const {
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
  const int64_t start = args.hit.num_tokens > 0 ? args.hit.num_tokens : args.num_computed_tokens;
  int64_t target = start + args.num_new_tokens + args.num_lookahead_tokens;
  if (options_.reservation == KvReservation::kContiguousMaxLen) {
    target = std::max<int64_t>(target, options_.max_sequence_tokens);
  }
  const int64_t full = std::max<int64_t>(target, args.num_full_tokens);
  BlockChain chain{sequence.keys, args.tokens, sequence.hashes};
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
        if (store_.pool().ref_cnt(hit_block(chain, args.hit, g, i)) == 0) ++need.num_hits_free;
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
  const int64_t available =
      int64_t{store_.pool().num_free()} - need.num_hits_free - args.num_reserved_blocks;
  if (std::max(need.num_new, need.num_full) > available) return false;
  num_unused_slots_ -= num_unused_slots(sequence);
  if (adopts) adopt_hit(sequence, args);
  for (GroupTable& table : sequence.groups) {
    while (static_cast<int32_t>(table.blocks.size()) < need.table_size)
      table.blocks.push_back(store_.take());
  }
  sequence.capacity_tokens = need.table_size * spec_.block_size;
  sequence.tables_changed = true;
  num_unused_slots_ += num_unused_slots(sequence);
  return true;
}

void BlockTables::adopt_hit(Sequence& sequence, const AllocateArgs& args) {
  const PrefixHit& hit = args.hit;
  BlockChain chain{sequence.keys, args.tokens, sequence.hashes};
  const int32_t num_full = hit.num_tokens / spec_.block_size;
  const size_t first_source = copy_sources_.blocks().size();
  // Everything that is kept is referenced before anything is taken, or taking could evict it.
  for (int32_t g = 0; g < num_groups(); ++g) {
    GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    const int32_t first = std::min(
        num_full,
        first_needed_block(spec_.groups[static_cast<size_t>(g)], spec_.block_size, hit.num_tokens));
    table.blocks.assign(static_cast<size_t>(first), kNullBlock);
    for (int32_t i = first; i < num_full; ++i) {
      table.blocks.push_back(hit_block(chain, hit, g, i));
      store_.touch(table.blocks.back());
    }
    table.num_freed = first;
    if (hit.partial_block) {
      copy_sources_.add(hit_block(chain, hit, g, num_full));
      store_.note_access(copy_sources_.blocks().back());
    }
  }
  sequence.num_computed_tokens = hit.num_tokens;
  sequence.num_committed = num_full;
  if (!hit.partial_block) return;
  for (size_t g = 0; g < sequence.groups.size(); ++g) {
    sequence.groups[g].blocks.push_back(store_.take());
    copies_.push_back({.source = copy_sources_.blocks()[first_source + g],
                       .destination = sequence.groups[g].blocks.back()});
    ++num_copied_total_;
  }
}

void BlockTables::free_out_of_window(Sequence& sequence) {
  for (size_t g = 0; g < sequence.groups.size(); ++g) {
    GroupTable& table = sequence.groups[g];
    const int32_t first = std::min(
        first_needed_block(spec_.groups[g], spec_.block_size, sequence.num_computed_tokens),
        static_cast<int32_t>(table.blocks.size()));
    for (int32_t i = first; i-- > table.num_freed;) {
      store_.unref(table.blocks[static_cast<size_t>(i)]);
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
  // Tables of all groups are as long as one another, and not empty.
  num_unused_slots_ -= int64_t{num_computed_tokens - sequence.num_computed_tokens} * num_groups();
  sequence.num_computed_tokens = num_computed_tokens;
  const int32_t num_full = num_computed_tokens / spec_.block_size;
  if (num_full == sequence.num_committed) return;
  if (options_.reads_cache()) register_blocks(sequence, tokens, num_full);
  sequence.num_committed = num_full;
}

// Registers what is not committed of the first `end` blocks.
void BlockTables::register_blocks(Sequence& sequence, std::span<const TokenId> tokens,
                                  int32_t end) {
  constexpr int32_t kAhead = 4;  // blocks whose memory is asked for before it is written
  BlockChain chain{sequence.keys, tokens, sequence.hashes};
  lookup_.extend(chain, end);
  for (int32_t g = 0; g < num_groups(); ++g) {
    const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    for (int32_t i = std::max(sequence.num_committed, table.num_freed); i < end; ++i) {
      if (i + kAhead < end)
        store_.cache().prefetch_block(table.blocks[static_cast<size_t>(i + kAhead)]);
      store_.register_block(lookup_.content(chain, g, i), table.blocks[static_cast<size_t>(i)], i);
    }
  }
}

void BlockTables::hold(KvSequenceId id, std::span<const TokenId> tokens, const PrefixHit& hit,
                       BlockHold& hold) {
  BlockChain blocks = chain(id, tokens);
  for (int32_t g = 0; g < num_groups(); ++g) {
    const KvGroupSpec& group = spec_.groups[static_cast<size_t>(g)];
    const int32_t first = first_needed_block(group, spec_.block_size, hit.num_tokens);
    for (int32_t i = first; i < round_up_to_blocks(hit.num_tokens); ++i) {
      hold.add(hit_block(blocks, hit, g, i));
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
