// StepCopies: the block copies that a plan makes before the forward pass. They give a sequence
// blocks of its own in place of those that a hit ends in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/step.h"
#include "kv/blocks/block_store.h"

namespace quire {

class StepCopies {
 public:
  // Forgets the copies of the previous step and unpins their sources.
  void begin_step();
  // Adds a copy of `source`, which is kept from eviction from here on. Its destination is set
  // later.
  void add(BlockStore& store, BlockId source);
  // Sets the destination of copy i of all().
  void set_destination(size_t i, BlockId block);
  // Forgets copies to freed blocks, which may be given to another sequence in the same step.
  void forget_copies_to(KvPool pool, std::span<const BlockId> blocks);

  std::span<const BlockCopy> all() const { return copies_; }
  int64_t num_total() const { return num_total_; }

 private:
  std::vector<BlockCopy> copies_;
  BlockHold sources_;
  int64_t num_total_ = 0;
};

}  // namespace quire
