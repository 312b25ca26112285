// BlockTables: how many blocks something takes, frees or wastes. Nothing here changes anything.

#include <algorithm>

#include "kv/groups/group_policy.h"
#include "kv/tables/block_tables.h"

namespace quire {

int64_t BlockTables::most_blocks(int32_t g, int64_t num_tokens, int64_t num_computed_tokens) const {
  if (!frees_) return round_up_to_blocks(g, num_tokens);
  const int64_t remaining = std::max<int64_t>(1, num_tokens - num_computed_tokens);
  const int64_t step = options_.max_step_tokens > 0
                           ? std::min<int64_t>(remaining, options_.max_step_tokens)
                           : remaining;
  return max_held_blocks(group(g), block_size(g), num_tokens, static_cast<int32_t>(step));
}

BlockCounts BlockTables::blocks_for(int64_t num_tokens) const {
  if (options_.reservation == KvReservation::kContiguousMaxLen) {
    num_tokens = std::max<int64_t>(num_tokens, options_.max_sequence_tokens);
  }
  BlockCounts sum;
  for (int32_t g = 0; g < num_groups(); ++g) sum[group(g).pool()] += most_blocks(g, num_tokens, 0);
  return sum;
}

BlockCounts BlockTables::blocks_missing(KvSequenceId id, int64_t num_tokens) const {
  const Sequence& sequence = at(id);
  BlockCounts sum;
  if (num_tokens <= sequence.capacity_tokens) return sum;
  for (int32_t g = 0; g < num_groups(); ++g) {
    const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    const int64_t held = static_cast<int64_t>(table.blocks.size()) - table.num_freed;
    sum[group(g).pool()] +=
        std::max<int64_t>(0, most_blocks(g, num_tokens, sequence.num_computed_tokens) - held);
  }
  return sum;
}

BlockCounts BlockTables::a_block_each() const {
  BlockCounts counts;
  for (const KvGroupSpec& group : spec_.groups) ++counts[group.pool()];
  return counts;
}

BlockCounts BlockTables::num_exclusive_blocks(KvSequenceId id) const {
  BlockCounts counts;
  for (int32_t g = 0; g < num_groups(); ++g) {
    const BlockPool& pool = store(g).pool();
    for (const BlockId block : table(id, g))
      counts[group(g).pool()] += block != kNullBlock && pool.ref_cnt(block) == 1 ? 1 : 0;
  }
  return counts;
}

int32_t BlockTables::num_shared_tokens(KvSequenceId id) const {
  const GroupTable& table = at(id).groups[0];
  int32_t count = 0;
  while (count < static_cast<int32_t>(table.blocks.size())) {
    const BlockId block = table.blocks[static_cast<size_t>(count)];
    if (block != kNullBlock && store(0).pool().ref_cnt(block) < 2) break;
    ++count;
  }
  return std::min(count * block_size(0), at(id).num_computed_tokens);
}

int64_t BlockTables::num_unused_slots(const Sequence& sequence) const {
  int64_t sum = 0;
  for (int32_t g = 0; g < num_groups(); ++g) {
    const GroupTable& table = sequence.groups[static_cast<size_t>(g)];
    if (group(g).pool() != KvPool::kAttention || table.blocks.empty()) continue;
    sum += static_cast<int64_t>(table.blocks.size()) * block_size(g) - sequence.num_computed_tokens;
  }
  return sum;
}

}  // namespace quire
