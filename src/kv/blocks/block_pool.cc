#include "kv/blocks/block_pool.h"

#include "base/check.h"

namespace quire {

BlockPool::BlockPool(int32_t num_blocks) {
  QUIRE_CHECK(num_blocks >= 2, "a pool needs the null block and one more, got {}", num_blocks);
  nodes_.resize(static_cast<size_t>(num_blocks));
  for (int32_t block = 1; block < num_blocks; ++block) link(block, nodes_[0].prev, 0);
}

void BlockPool::link(int32_t block, int32_t prev, int32_t next) {
  Node& node = nodes_[static_cast<size_t>(block)];
  node.prev = prev;
  node.next = next;
  nodes_[static_cast<size_t>(prev)].next = block;
  nodes_[static_cast<size_t>(next)].prev = block;
  ++num_free_;
}

void BlockPool::unlink(int32_t block) {
  const Node& node = nodes_[static_cast<size_t>(block)];
  nodes_[static_cast<size_t>(node.prev)].next = node.next;
  nodes_[static_cast<size_t>(node.next)].prev = node.prev;
  --num_free_;
}

BlockId BlockPool::take() {
  const int32_t block = nodes_[0].next;
  QUIRE_CHECK(block != 0, "KV-1: a block was taken from an empty free list");
  unlink(block);
  nodes_[static_cast<size_t>(block)].ref_cnt = 1;
  return BlockId(block);
}

void BlockPool::ref(BlockId block) {
  QUIRE_DCHECK(valid(block), "KV-2: block {}", block.value);
  Node& node = nodes_[index(block)];
  if (node.ref_cnt == 0) unlink(block.value);
  ++node.ref_cnt;
}

void BlockPool::unref(BlockId block, FreeEnd end) {
  QUIRE_CHECK(valid(block), "KV-2: block {}", block.value);
  Node& node = nodes_[index(block)];
  QUIRE_CHECK(node.ref_cnt > 0, "KV-2: block {} freed twice", block.value);
  if (--node.ref_cnt > 0) return;
  if (end == FreeEnd::kFront) {
    link(block.value, 0, nodes_[0].next);
  } else {
    link(block.value, nodes_[0].prev, 0);
  }
}

}  // namespace quire
