// BlockTables: which block holds which tokens of which sequence. There is one table per sequence
// and group; entry i of a table is the block of tokens [i * block_size, (i + 1) * block_size), with
// the block size of the group's pool.
//
// Positions of one allocation, left to right:
//
//   | computed | hit (adopted, ref_cnt++) | new (to be computed) | look-ahead |
//                                         ^ blocks allocated from here on; a partial hit block is
//                                         copied first
//
// All groups' tables of a sequence cover the same tokens. One thread may use it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/block_counts.h"
#include "kv/books/kv_options.h"
#include "kv/tables/block_sizing.h"
#include "kv/tables/sequence_list.h"
#include "kv/tables/step_copies.h"
#include "kv/tables/table_growth.h"

namespace quire {

// References by block id, for each pool.
using PoolRefs = std::array<std::vector<int32_t>, kNumKvPools>;

class BlockTables {
 public:
  // Borrows all of its arguments. `spec` has at least one group, and block_size >= 1.
  BlockTables(const KvSpec& spec, const KvOptions& options, BlockStores& stores,
              const PrefixLookup& lookup);
  BlockTables(const BlockTables&) = delete;
  BlockTables& operator=(const BlockTables&) = delete;

  const BlockSizing& sizing() const { return sizing_; }

  // --- Sequences ---
  // Opens a new, empty sequence whose content is found under `keys`. It must be closed.
  KvSequenceId open(RequestId owner, SequenceKeys keys) {
    return sequences_.open(owner, std::move(keys));
  }
  // Frees its blocks and forgets it; returns its keys.
  SequenceKeys close(KvSequenceId sequence);
  // Frees all blocks of the sequence, whose tail will be evicted first. The sequence stays open and
  // may allocate again.
  void free(KvSequenceId sequence);
  // Returns the chain of the sequence's first tokens, which are `tokens`. It is valid until
  // close().
  BlockChain chain(KvSequenceId sequence, std::span<const TokenId> tokens) {
    return {sequences_.at(sequence).keys, tokens, sequences_.at(sequence).hashes};
  }

  // --- Growing ---
  // Returns the first `num_tokens` tokens of `source` as a hit for another sequence with the same
  // tokens and keys. The hit is empty if source has not computed them, or no longer has a block
  // that left a window or a state that later tokens have changed.
  PrefixHit fork_hit(KvSequenceId source, int32_t num_tokens) const;
  // Makes room for computed + hit + new + look-ahead tokens, or changes nothing and returns false;
  // either way, blocks that left the window are freed first. The copies that it needs are in
  // copies() until the next begin_step().
  bool allocate(KvSequenceId sequence, const AllocateArgs& args);
  // Registers full blocks of the first num_computed_tokens of `tokens`, whose KV is written and
  // final.
  void commit(KvSequenceId sequence, std::span<const TokenId> tokens, int32_t num_computed_tokens);
  // Adds the blocks of a hit of this sequence, as far as it needs them, to `hold`.
  void hold(KvSequenceId sequence, std::span<const TokenId> tokens, const PrefixHit& hit,
            BlockHold& hold);

  // --- Needs ---
  // Returns the blocks that growing the sequence to `num_tokens` would still take.
  BlockCounts blocks_missing(KvSequenceId sequence, int64_t num_tokens) const;
  // Whether allocate() of tokens before num_tokens would change nothing and succeed.
  bool has_slots(KvSequenceId sequence, int64_t num_tokens) const {
    return !sizing_.blocks_leave() && num_tokens <= sequences_.at(sequence).capacity_tokens;
  }
  // Returns the blocks that would become free if the sequence were freed, and counts its tokens in
  // blocks that others hold as well.
  BlockCounts num_exclusive_blocks(KvSequenceId sequence) const;
  int32_t num_shared_tokens(KvSequenceId sequence) const;

  // --- For the plan ---
  // Forgets the copies of the previous step and unpins their sources.
  void begin_step() { copies_.begin_step(); }
  std::span<const BlockCopy> copies() const { return copies_.all(); }
  // Appends what has changed in the sequence's tables since the last call, or with `whole_table`
  // everything.
  void append_updates(KvSequenceId sequence, int32_t request_index, bool whole_table,
                      std::vector<BlockTableUpdate>& out) {
    if (whole_table || sequences_.at(sequence).tables_changed)
      append_changes(sequences_.at(sequence), request_index, whole_table, out);
  }
  // Returns the table of one group, by logical index; valid until the sequence changes.
  std::span<const BlockId> table(KvSequenceId sequence, int32_t group) const {
    return sequences_.at(sequence).table(group).blocks;
  }

  // --- Views ---
  // Calls visit(owner, block) for each entry of each table of a pool, null blocks included.
  template <typename Visit>
  void for_each_entry(KvPool pool, Visit&& visit) const {
    for (const KvSequence& sequence : sequences_.all()) {
      for (int32_t g = 0; g < sizing_.num_groups(); ++g) {
        if (sizing_.group(g).pool() != pool) continue;
        for (const BlockId block : sequence.table(g).blocks) visit(sequence.owner, block);
      }
    }
  }
  bool any_open() const { return sequences_.any_open(); }
  // Sets the counts that are about sequences: copies, and the slots of their blocks of
  // KvPool::kAttention without a computed token.
  void fill(KvStats& stats) const;
  // Checks KV-2 and KV-6 as far as tables show them, and the count of unused slots. Adds the
  // tables' references to `refs`, by block id of each pool.
  Status check(PoolRefs& refs) const;

 private:
  BlockStore& store(int32_t g) const { return stores_.at(sizing_.group(g).pool()); }
  void register_blocks(KvSequence& sequence, std::span<const TokenId> tokens, int32_t g,
                       int32_t end);
  void append_changes(KvSequence& sequence, int32_t request_index, bool whole_table,
                      std::vector<BlockTableUpdate>& out);

  const KvOptions& options_;
  const BlockSizing sizing_;
  BlockStores& stores_;
  const PrefixLookup& lookup_;
  SequenceList sequences_;
  StepCopies copies_;
  const TableGrowth growth_;
  int64_t num_unused_slots_ = 0;  // sum over all sequences
};

}  // namespace quire
