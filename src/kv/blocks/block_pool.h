// BlockPool: reference counts and the free list. It has no information about the content of blocks.
//
// Block 0 is the null block: it is never allocated, freed or counted. Every other block is either
// referenced (ref_cnt > 0) or on the free list exactly once. The list is in eviction order; linking
// and unlinking at any place is O(1). One thread may use it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// The end of the free list that a block without references joins: the block at the front is reused
// next, the one at the back last.
enum class FreeEnd : uint8_t { kFront, kBack };

class BlockPool {
 public:
  // `num_blocks` >= 2 includes the null block. At first all blocks are free, in order of id.
  explicit BlockPool(int32_t num_blocks);

  int32_t num_blocks() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t num_free() const { return num_free_; }
  int32_t ref_cnt(BlockId block) const { return nodes_[index(block)].ref_cnt; }
  bool valid(BlockId block) const { return block.value > 0 && block.value < num_blocks(); }

  // Takes the block at the front of the free list; its ref_cnt becomes 1. Precondition: num_free()
  // > 0.
  BlockId take();
  // Adds a reference; takes the block off the free list if it was free.
  void ref(BlockId block);
  // Removes a reference; without references the block joins the free list at `end`.
  void unref(BlockId block, FreeEnd end);

  // The free list in eviction order: first_free(), then next_free() until kNullBlock.
  BlockId first_free() const { return BlockId(nodes_[0].next); }
  BlockId next_free(BlockId block) const { return BlockId(nodes_[index(block)].next); }

 private:
  // Links are block ids. Node 0, whose block is never free, is both head and tail of the list.
  struct Node {
    int32_t ref_cnt = 0;
    int32_t prev = 0;
    int32_t next = 0;
  };
  static size_t index(BlockId block) { return static_cast<size_t>(block.value); }
  void link(int32_t block, int32_t prev, int32_t next);
  void unlink(int32_t block);

  std::vector<Node> nodes_;
  int32_t num_free_ = 0;
};

}  // namespace quire
