// PrefixCache: which block holds which content. It is a hash table over blocks that never
// allocates. Its slots have half a hash and a block id, and are searched linearly from the place
// that the hash gives; one record per block has everything that confirms a hit. A miss reads only
// slots.
//
// A hash finds a candidate. For a hit, group, keys, parent hash and token ids are compared exactly,
// so that a collision never returns another client's KV. Several blocks may hold the same content;
// the first registered one is found. One thread may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/prefix/block_hash.h"
#include "kv/prefix/cache_keys.h"

namespace quire {

// Everything that the KV of one full block depends on.
struct BlockContent {
  int32_t group = 0;
  int32_t keys = 0;  // id in the cache's CacheKeyTable
  BlockHash hash;
  BlockHash parent;
  std::span<const TokenId> tokens;  // block_size tokens
};

class PrefixCache {
 public:
  // Borrows `keys`, in which each registered block is a user of its keys.
  PrefixCache(int32_t num_blocks, int32_t block_size, CacheKeyTable& keys);

  const CacheKeyTable& keys() const { return keys_; }
  int32_t num_registered() const { return num_registered_; }

  std::optional<BlockId> find(const BlockContent& content) const;
  bool contains(BlockId block) const { return registered_[static_cast<size_t>(block.value)] != 0; }
  // Registers a block that is not registered. Returns whether it is the first with this content.
  bool insert(BlockId block, const BlockContent& content);
  // Forgets a registered block. Returns whether no other block has the same content.
  bool erase(BlockId block);
  // Returns the content of a registered block; its tokens point into the cache.
  BlockContent content(BlockId block) const;
  void clear();
  // These two prefetch memory that insert() and erase() of a block, or a lookup, will touch.
  void prefetch_block(BlockId block) const;  // its record and tokens; any block
  void prefetch_slot(BlockId block) const;   // the slot of its content; reads the record
  void prefetch_slot(const BlockHash& hash, int32_t group) const;

 private:
  struct alignas(64) Entry {  // one cache line
    BlockHash hash;
    BlockHash parent;
    int32_t group = 0;
    int32_t keys = 0;
    // Blocks with the same content are linked in the order of registration; 0: none. The first is
    // in a slot, and its `last` is the last.
    int32_t prev = 0;
    int32_t next = 0;
    int32_t last = 0;
  };
  // The first block with some content. A search begins at home(tag) and ends at an empty slot.
  struct Slot {
    uint32_t tag = 0;
    int32_t block = 0;  // 0: empty
  };
  Entry& entry(BlockId block) { return entries_[static_cast<size_t>(block.value)]; }
  const Entry& entry(BlockId block) const { return entries_[static_cast<size_t>(block.value)]; }
  size_t home(uint32_t tag) const { return tag & (slots_.size() - 1); }
  size_t after(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  bool matches(int32_t block, const BlockContent& content) const;
  // Returns the slot of this content, or the empty one that it would take.
  size_t slot_of(const BlockContent& content) const;
  void close_gap(size_t gap);

  CacheKeyTable& keys_;
  const size_t block_size_;
  std::vector<Entry> entries_;   // by block id
  std::vector<TokenId> tokens_;  // block_size per block
  std::vector<Slot> slots_;      // the size is a power of two, at least twice the blocks
  // By block id; a separate table, so that reading it stays within the CPU's cache.
  std::vector<uint8_t> registered_;
  int32_t num_registered_ = 0;
};

}  // namespace quire
