// Gives the first rank's threads, which read and write files, access to the host blocks of the
// other ranks: directly on its own machine, and through copies elsewhere (host_block_link.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/rank_links.h"
#include "comm/shared_memory.h"
#include "core/kv_files.h"
#include "core/kv_spec.h"
#include "core/step.h"
#include "exec/kv_layout.h"
#include "ranks/host_blocks/host_block_link.h"

namespace quire {

// Sent by a rank when it has its memory: where others find its host blocks, by pool.
using HostBlockOffers = std::array<SharedMemoryOffer, kNumKvPools>;
// The first rank's answer, by pool: 1 if it keeps a copy of the blocks, 0 if not.
using HostBlockCopies = std::array<uint8_t, kNumKvPools>;

// Used by the first rank, on the thread that runs steps.
class OthersHostBlocks {
 public:
  // Borrows the links.
  explicit OthersHostBlocks(RankLinks& links) : links_(links) {}

  // Takes the offers (HostBlockOffers) of rank `other`, whose part of the model has `layout`.
  // kDataLoss: the offers are for other blocks. kResourceExhausted: there is no memory for copies.
  Result<HostBlockCopies> take(int other, std::span<const std::byte> offers, const KvLayout& layout,
                               const KvPlan& plan);
  void add_to(KvHostMemory& memory) const;

  // begin_step() is called for each step before the first rank runs it, and end_step(), in the same
  // order, when it has run.
  Status begin_step(const StepPlan& plan);
  Status end_step();

 private:
  struct Blocks {
    KvPool pool = KvPool::kAttention;
    HostBlocks blocks;
    SharedMemory memory;
  };
  RankLinks& links_;
  std::vector<Blocks> blocks_;
  std::vector<std::unique_ptr<HostBlockLink>> copies_;  // one for each rank with copied blocks
  std::deque<std::vector<HostBlock>> written_;          // for each step under way
};

}  // namespace quire
