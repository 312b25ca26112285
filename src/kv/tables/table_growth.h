// TableGrowth gives blocks to tables. Full blocks of a hit are adopted, a block that the hit ends
// inside is copied, and the rest are new. Blocks that have left a window are freed.
#pragma once

#include <cstdint>
#include <span>

#include "core/step.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/block_counts.h"
#include "kv/tables/block_sizing.h"
#include "kv/tables/sequence_list.h"
#include "kv/tables/step_copies.h"

namespace quire {

struct AllocateArgs {
  std::span<const TokenId> tokens{};  // all known tokens of the sequence
  int32_t num_computed_tokens = 0;    // 0 if there is a `hit`
  PrefixHit hit{};                    // only on the first allocation after open() or free()
  int32_t num_new_tokens = 0;         // to compute in this step; 0: only the hit is taken
  int32_t num_lookahead_tokens = 0;
  // The call fails unless this many tokens of the sequence could be held now, although blocks are
  // allocated only for the new ones.
  int32_t num_full_tokens = 0;
  // Free blocks that must remain afterwards (the watermark, and what others were promised).
  BlockCounts num_reserved_blocks = {};
};

class TableGrowth {
 public:
  // Borrows all of its arguments. The sources of forks are in `sequences`.
  TableGrowth(const BlockSizing& sizing, BlockStores& stores, const PrefixLookup& lookup,
              const SequenceList& sequences, StepCopies& copies)
      : sizing_(sizing), stores_(stores), lookup_(lookup), sequences_(sequences), copies_(copies) {}

  // Frees the blocks that left the window.
  void free_out_of_window(KvSequence& sequence) const;
  // Makes room for computed + hit + new + look-ahead tokens, or changes nothing and returns false.
  bool grow(KvSequence& sequence, const AllocateArgs& args) const;
  // Returns block `index` of a group that a hit offers.
  BlockId hit_block(BlockChain& chain, const PrefixHit& hit, int32_t g, int32_t index) const;

 private:
  struct Need {
    int64_t num_tokens = 0;     // that the sequence will have room for
    BlockCounts num_new;        // blocks to take now
    BlockCounts num_full;       // blocks to take now or later, with num_full_tokens
    BlockCounts num_hits_free;  // hit blocks that leave the free list when adopted
  };

  BlockStore& store(int32_t g) const { return stores_.at(sizing_.group(g).pool()); }
  Need compute_need(KvSequence& sequence, const AllocateArgs& args) const;
  bool has_room(const Need& need, const BlockCounts& num_reserved_blocks) const;
  void adopt_hit(KvSequence& sequence, const AllocateArgs& args) const;
  void copy_partial_blocks(KvSequence& sequence, BlockChain& chain, const PrefixHit& hit) const;

  const BlockSizing& sizing_;
  BlockStores& stores_;
  const PrefixLookup& lookup_;
  const SequenceList& sequences_;
  StepCopies& copies_;
};

}  // namespace quire
