// The copies of blocks that the plan of this step makes before anything else: a sequence gets blocks
// of its own for those that a hit ends in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/step.h"
#include "kv/blocks/block_store.h"

namespace quire {

class StepCopies {
 public:
  // Forgets the copies of the step before and lets their sources go.
  void begin_step();
  // From here on `source` is kept from eviction. Where it goes is said later.
  void add(BlockStore& store, BlockId source);
  // Of copy i of all().
  void set_destination(size_t i, BlockId block);
  // A block that is given back may be given to another sequence in the same step.
  void forget_copies_to(KvPool pool, std::span<const BlockId> blocks);

  std::span<const BlockCopy> all() const { return copies_; }
  int64_t num_total() const { return num_total_; }

 private:
  std::vector<BlockCopy> copies_;
  BlockHold sources_;
  int64_t num_total_ = 0;
};

}  // namespace quire
