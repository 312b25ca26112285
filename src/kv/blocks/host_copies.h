// HostCopies handles content that leaves a pool's blocks for host memory and comes back: it has the
// tier that keeps the content, and the copies that the next plan must make.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "core/kv_spec.h"
#include "core/step.h"
#include "kv/blocks/host_tier.h"
#include "kv/books/kv_options.h"
#include "kv/prefix/cache_keys.h"
#include "kv/prefix/prefix_cache.h"

namespace quire {

class HostCopies {
 public:
  // `num_blocks` >= 2 of host memory. Borrows `keys`, the table of the keys that contents name.
  HostCopies(KvPool pool, int32_t num_blocks, int32_t block_size, uint64_t hash_seed,
             const CacheKeyTable& keys)
      : pool_(pool), keys_(keys), tier_(num_blocks, block_size, hash_seed) {}

  HostTier& tier() { return tier_; }

  // Plans the copy of a block's content to the host, unless it is there already or finds no room.
  void keep(BlockId block, const BlockContent& content);
  // Returns the host block that has the content, or will have it after the planned copies.
  std::optional<BlockId> find(const BlockContent& content) {
    return tier_.find(content, keys_.keys(content.keys));
  }
  bool holds(const BlockContent& content) const {
    return tier_.holds(content, keys_.keys(content.keys));
  }
  // Plans the copy of a host block that find() has returned into `block`.
  void load(BlockId host_block, BlockId block);
  void clear() { tier_.clear(); }

  // Whether copies wait for a plan.
  bool any() const { return !copies_.empty(); }
  // Appends the copies since the last call, in the order in which they must be made.
  void take(std::vector<HostBlockCopy>& out);
  // Sets the counts that are about the host.
  void fill(KvStats& stats) const;

 private:
  const KvPool pool_;
  const CacheKeyTable& keys_;
  HostTier tier_;
  std::vector<HostBlockCopy> copies_;  // not yet in a plan
  int64_t num_offloaded_total_ = 0;
  int64_t num_loaded_total_ = 0;
};

}  // namespace quire
