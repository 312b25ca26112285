// BlockTables: which block holds which tokens of which sequence. One table per sequence and group;
// entry i of a table is the block of tokens [i * block_size, (i + 1) * block_size), with the block
// size of the group's pool.
//
// Positions of one allocation, left to right:
//
//   | computed | hit (adopted, ref_cnt++) | new (to be computed) | look-ahead |
//                                         ^ blocks allocated from here on; a partial hit block is
//                                         copied first
//
// All groups' tables of a sequence cover the same tokens. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/block_counts.h"
#include "kv/books/kv_options.h"

namespace quire {

struct AllocateArgs {
  std::span<const TokenId> tokens{};  // all known tokens of the sequence
  int32_t num_computed_tokens = 0;    // 0 when `hit` is given
  PrefixHit hit{};                    // only on the first allocation after open() or free()
  int32_t num_new_tokens = 0;         // to be computed in this step; 0: only the hit is taken
  int32_t num_lookahead_tokens = 0;
  // Refuse unless this many tokens of the sequence could be held now, although only the new ones
  // are allocated.
  int32_t num_full_tokens = 0;
  // Free blocks that must remain afterwards (watermark, what others were promised).
  BlockCounts num_reserved_blocks = {};
};

// References by block id, for each pool.
using PoolRefs = std::array<std::vector<int32_t>, kNumKvPools>;

class BlockTables {
 public:
  // Borrows all three, which must outlive it. `spec` has at least one group, block_size >= 1.
  BlockTables(const KvSpec& spec, const KvOptions& options, BlockStores& stores);

  // --- Sequences ---
  // A new, empty sequence whose content is found under `keys`. It must be closed.
  KvSequenceId open(RequestId owner, SequenceKeys keys);
  // Frees its blocks and forgets it; returns its keys.
  SequenceKeys close(KvSequenceId sequence);
  // Gives all blocks back, the tail first to be evicted; the sequence stays open and may allocate
  // anew.
  void free(KvSequenceId sequence);
  // The sequence's place in the cache's key space, for these tokens of it. Valid until close().
  BlockChain chain(KvSequenceId sequence, std::span<const TokenId> tokens) {
    return {at(sequence).keys, tokens, at(sequence).hashes};
  }

  // --- Growing ---
  // The first `num_tokens` tokens of `source` as a hit for another sequence with the same tokens
  // and keys; an empty hit when source has not computed them, or has lost something that is needed:
  // blocks that left a window, or a state that later tokens have changed.
  PrefixHit fork_hit(KvSequenceId source, int32_t num_tokens) const;
  // Makes room for computed + hit + new + look-ahead tokens, or changes nothing and returns false.
  // Blocks that left the window are freed first, either way. Copies needed are in copies() until
  // the next begin_step().
  bool allocate(KvSequenceId sequence, const AllocateArgs& args);
  // The KV of the first num_computed_tokens of `tokens` is written and final: registers full
  // blocks.
  void commit(KvSequenceId sequence, std::span<const TokenId> tokens, int32_t num_computed_tokens);
  // Adds the blocks of a hit of this sequence, as far as it needs them, to `hold`.
  void hold(KvSequenceId sequence, std::span<const TokenId> tokens, const PrefixHit& hit,
            BlockHold& hold);

  // --- Arithmetic ---
  // Whether blocks leave tables while they grow.
  bool blocks_leave() const { return frees_; }
  // Blocks, all groups together, to hold `num_tokens` of one sequence.
  BlockCounts blocks_for(int64_t num_tokens) const;
  // Blocks that growing the sequence to `num_tokens` would still take.
  BlockCounts blocks_missing(KvSequenceId sequence, int64_t num_tokens) const;
  // One block for each group.
  BlockCounts a_block_each() const;
  // allocate() of what reaches no further than num_tokens would change nothing and succeed.
  bool has_slots(KvSequenceId sequence, int64_t num_tokens) const {
    return !frees_ && num_tokens <= at(sequence).capacity_tokens;
  }
  // Blocks that would become free if the sequence were freed, and its tokens in blocks that others
  // hold as well.
  BlockCounts num_exclusive_blocks(KvSequenceId sequence) const;
  int32_t num_shared_tokens(KvSequenceId sequence) const;
  // Slots of all sequences' blocks of KvPool::kAttention that hold no computed token.
  int64_t num_unused_slots() const { return num_unused_slots_; }

  // --- For the plan ---
  // Forgets the copies of the step before and lets their sources go.
  void begin_step();
  std::span<const BlockCopy> copies() const { return copies_; }
  int64_t num_copied_total() const { return num_copied_total_; }
  // Appends what changed in the sequence's tables since the last call (everything after
  // `whole_table`).
  void append_updates(KvSequenceId sequence, int32_t request_index, bool whole_table,
                      std::vector<BlockTableUpdate>& out) {
    if (whole_table || at(sequence).tables_changed)
      append_changes(at(sequence), request_index, whole_table, out);
  }
  // The table of one group, by logical index; valid until the sequence changes.
  std::span<const BlockId> table(KvSequenceId sequence, int32_t group) const {
    return at(sequence).groups[static_cast<size_t>(group)].blocks;
  }

  // --- Looking ---
  // Calls visit(owner, block) for each entry of each table of a pool, null blocks included.
  template <typename Visit>
  void for_each_entry(KvPool pool, Visit&& visit) const {
    for (const Sequence& sequence : sequences_) {
      for (size_t g = 0; g < sequence.groups.size(); ++g) {
        if (spec_.groups[g].pool() != pool) continue;
        for (const BlockId block : sequence.groups[g].blocks) visit(sequence.owner, block);
      }
    }
  }
  bool any_open() const { return free_sequences_.size() != sequences_.size(); }
  // KV-2 and KV-6 as seen from the tables, and the count of unused slots. Adds the tables'
  // references to `refs`, by block id of each pool.
  Status check(PoolRefs& refs) const;

 private:
  struct GroupTable {
    std::vector<BlockId> blocks;  // by logical index; null blocks where the window has passed
    int32_t num_freed = 0;        // leading null blocks
    int32_t num_sent = 0;         // leading entries that the executor knows
    int32_t num_freed_sent = 0;
    int32_t num_committed = 0;  // leading blocks that commit() has dealt with
  };
  struct Sequence {
    bool open = false;
    RequestId owner;
    SequenceKeys keys;  // ids in BlockStores::keys()
    int32_t num_computed_tokens = 0;
    int32_t capacity_tokens = 0;  // that every group has room for, from position 0
    bool tables_changed = false;  // since append_updates()
    BlockHashes hashes;           // computed on demand
    std::vector<GroupTable> groups;
  };
  struct Need {
    int64_t num_tokens = 0;     // of the sequence that will have room
    BlockCounts num_new;        // blocks to take now
    BlockCounts num_full;       // blocks to take sooner or later, num_full_tokens considered
    BlockCounts num_hits_free;  // hit blocks that leave the free list when adopted
  };

  Sequence& at(KvSequenceId id) {
    QUIRE_DCHECK(id.value >= 0 && id.value < static_cast<int32_t>(sequences_.size()));
    return sequences_[static_cast<size_t>(id.value)];
  }
  const Sequence& at(KvSequenceId id) const {
    QUIRE_DCHECK(id.value >= 0 && id.value < static_cast<int32_t>(sequences_.size()));
    return sequences_[static_cast<size_t>(id.value)];
  }
  int32_t num_groups() const { return static_cast<int32_t>(spec_.groups.size()); }
  const KvGroupSpec& group(int32_t g) const { return spec_.groups[static_cast<size_t>(g)]; }
  int32_t block_size(int32_t g) const { return spec_.pool(group(g).pool()).block_size; }
  BlockStore& store(int32_t g) const { return stores_.at(group(g).pool()); }
  int32_t round_up_to_blocks(int32_t g, int64_t num_tokens) const {
    const int32_t size = block_size(g);
    return static_cast<int32_t>((num_tokens + size - 1) / size);
  }
  int64_t most_blocks(int32_t g, int64_t num_tokens, int64_t num_computed_tokens) const;
  int64_t num_unused_slots(const Sequence& sequence) const;

  BlockId hit_block(BlockChain& chain, const PrefixHit& hit, int32_t group, int32_t index) const;
  Need compute_need(Sequence& sequence, const AllocateArgs& args) const;
  bool has_room(const Need& need, const BlockCounts& num_reserved_blocks) const;
  void adopt_hit(Sequence& sequence, const AllocateArgs& args);
  void copy_partial_blocks(Sequence& sequence, BlockChain& chain, const PrefixHit& hit);
  void free_out_of_window(Sequence& sequence);
  void forget_copies_to(const Sequence& sequence);
  void register_blocks(Sequence& sequence, std::span<const TokenId> tokens, int32_t g, int32_t end);
  void append_changes(Sequence& sequence, int32_t request_index, bool whole_table,
                      std::vector<BlockTableUpdate>& out);
  Status check_entries(const Sequence& sequence, PoolRefs& refs) const;
  Status check_writable(const Sequence& sequence, const PoolRefs& refs) const;

  const KvSpec& spec_;
  const KvOptions& options_;
  const bool frees_;  // blocks leave tables while they grow
  BlockStores& stores_;
  const PrefixLookup lookup_;
  std::vector<Sequence> sequences_;
  std::vector<KvSequenceId> free_sequences_;
  std::vector<BlockCopy> copies_;
  BlockHold copy_sources_;  // of this step's copies
  int64_t num_copied_total_ = 0;
  int64_t num_unused_slots_ = 0;
};

}  // namespace quire
