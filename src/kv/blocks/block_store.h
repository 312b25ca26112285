// BlockStore: the blocks of one pool of the device's memory, their content, and where content goes
// that is evicted. It combines the pool (reference counts), the prefix cache (the content of
// blocks), the host tier (evicted content) and the records that others read: events and residency.
//
// BlockTables has the sequences: in a store, blocks have references and no owners. One thread may
// use it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "core/kv_spec.h"
#include "kv/blocks/block_pool.h"
#include "kv/blocks/host_copies.h"
#include "kv/books/event_log.h"
#include "kv/books/kv_events.h"
#include "kv/books/kv_options.h"
#include "kv/books/residency.h"
#include "kv/prefix/prefix_cache.h"

namespace quire {

class BlockStore {
 public:
  // `num_blocks` >= 2 includes the null block. Borrows `keys`.
  BlockStore(KvPool pool, int32_t num_blocks, int32_t block_size, const KvOptions& options,
             CacheKeyTable& keys);
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  KvPool name() const { return name_; }
  int32_t block_size() const { return block_size_; }
  const BlockPool& pool() const { return pool_; }
  const PrefixCache& cache() const { return cache_; }
  void set_time(int64_t now_us) { now_us_ = now_us; }

  // --- References ---
  // Takes the free block that has waited longest, with a ref_cnt of 1; its content moves from the
  // cache to the host tier. Precondition: pool().num_free() > 0.
  BlockId take();
  // Adds a reference, for a sequence that reads the block.
  void touch(BlockId block) {
    pool_.ref(block);
    note_access(block);
  }
  // Records that a sequence reads the block without referencing it.
  void note_access(BlockId block) { residency_.on_touch(block, now_us_); }
  // Removes a reference. A registered block without references waits at the back of the free list.
  void unref(BlockId block) {
    pool_.unref(block, cache_.contains(block) ? FreeEnd::kBack : FreeEnd::kFront);
    if (pool_.ref_cnt(block) == 0) residency_.on_free(block, now_us_);
  }
  // Adds the reference of a BlockHold. It is no access, so residency does not count it.
  void hold(BlockId block);
  void release_hold(BlockId block);
  int32_t num_holds(BlockId block) const { return num_holds_[static_cast<size_t>(block.value)]; }

  // --- Content ---
  // Registers a full block as block `index` of its sequence.
  void register_block(const BlockContent& content, BlockId block, int32_t index);
  // Forgets all content, that of the host tier too. Precondition: no block is in use.
  void clear();

  // --- Host tier ---
  // Returns null if the store has no host tier.
  HostCopies* host() { return host_ ? &*host_ : nullptr; }
  const HostCopies* host() const { return host_ ? &*host_ : nullptr; }
  // Returns the host block that has the content of one of this store's blocks, or will have it
  // after the planned copies. nullopt: the content is not in the store, or the host has no room.
  // Precondition: the store has a host tier.
  std::optional<BlockId> copy_to_host(const BlockContent& content);
  // Takes a block and plans the copy of `content` from the host into it. nullopt: the host no
  // longer has the content, or no block is free.
  std::optional<BlockId> load(const BlockContent& content, int32_t index);

  // --- Records ---
  // Sets the counts that are about blocks; leaves those of sequences unchanged.
  void fill(KvStats& stats) const;
  // Appends the events since the last drain to `out`.
  void drain_events(std::vector<KvEvent>& out) { events_.drain(out); }
  void drain_residency(std::vector<ResidencySample>& out) { residency_.drain(out); }

 private:
  void evict(BlockId block);
  void prefetch_next_blocks() const;

  const KvPool name_;
  const int32_t block_size_;
  BlockPool pool_;
  PrefixCache cache_;
  std::optional<HostCopies> host_;
  ResidencySampler residency_;
  EventLog events_;
  std::vector<int32_t> num_holds_;  // by block id
  int64_t now_us_ = 0;
  int64_t num_allocated_total_ = 0;
  int64_t num_evicted_total_ = 0;
};

// Keeps blocks from eviction while it lives. Move-only; several may live at once. It must not
// outlive a store of its blocks.
class [[nodiscard]] BlockHold {
 public:
  BlockHold() = default;
  BlockHold(BlockHold&& other) noexcept : held_(std::exchange(other.held_, {})) {}
  BlockHold& operator=(BlockHold&& other) noexcept;
  ~BlockHold() { release(); }

  void add(BlockStore& store, BlockId block);
  // Releases all blocks, the last added first.
  void release();

 private:
  struct Held {
    BlockStore* store = nullptr;
    BlockId block;
  };
  std::vector<Held> held_;
};

}  // namespace quire
