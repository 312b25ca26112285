// Host blocks of the ranks behind the first one, for the threads of the first one, which read and write
// files: it sees those of its own machine, and has copies of the others (host_block_link.h).
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

// What a rank says once it has memory: where others find its host blocks, by pool.
using HostBlockOffers = std::array<SharedMemoryOffer, kNumKvPools>;
// What the first rank answers where it finds none: of which pools it has a copy, 1, or not, 0.
using HostBlockCopies = std::array<uint8_t, kNumKvPools>;

// The first rank has it, and uses it on its thread.
class OthersHostBlocks {
 public:
  // Borrows the links.
  explicit OthersHostBlocks(RankLinks& links) : links_(links) {}

  // Takes the offers (HostBlockOffers) of rank `other`, whose part of the model has `layout`. kDataLoss:
  // they are of other blocks. kResourceExhausted: there is no memory for copies.
  Result<HostBlockCopies> take(int other, std::span<const std::byte> offers, const KvLayout& layout,
                               const KvPlan& plan);
  void add_to(KvHostMemory& memory) const;

  // The other ranks are told of the step next. Then, in the same order, of each: it has been run.
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
  std::vector<std::unique_ptr<HostBlockLink>> copies_;  // one for each rank of which there are some
  std::deque<std::vector<HostBlock>> written_;          // by the steps under way
};

}  // namespace quire
