// BlockTables: how many blocks something takes, frees or wastes. Nothing here changes anything.

#include <algorithm>
#include <limits>

#include "kv/block_tables.h"
#include "kv/group_policy.h"

namespace quire {

int64_t BlockTables::most_blocks(const KvGroupSpec& group, int64_t num_tokens,
                                 int64_t num_computed_tokens) const {
  if (!frees_) return (num_tokens + spec_.block_size - 1) / spec_.block_size;
  const int64_t remaining = std::max<int64_t>(1, num_tokens - num_computed_tokens);
  const int64_t step = options_.max_step_tokens > 0
                           ? std::min<int64_t>(remaining, options_.max_step_tokens)
                           : remaining;
  return max_held_blocks(group, spec_.block_size, num_tokens, static_cast<int32_t>(step));
}

int32_t BlockTables::blocks_for(int64_t num_tokens) const {
  if (options_.reservation == KvReservation::kContiguousMaxLen) {
    num_tokens = std::max<int64_t>(num_tokens, options_.max_sequence_tokens);
  }
  int64_t sum = 0;
  for (const KvGroupSpec& group : spec_.groups) sum += most_blocks(group, num_tokens, 0);
  return static_cast<int32_t>(std::min<int64_t>(sum, std::numeric_limits<int32_t>::max()));
}

int32_t BlockTables::blocks_missing(KvSequenceId id, int64_t num_tokens) const {
  const Sequence& sequence = at(id);
  if (num_tokens <= sequence.capacity_tokens) return 0;
  int64_t sum = 0;
  for (size_t g = 0; g < sequence.groups.size(); ++g) {
    const GroupTable& table = sequence.groups[g];
    const int64_t held = static_cast<int64_t>(table.blocks.size()) - table.num_freed;
    sum += std::max<int64_t>(
        0, most_blocks(spec_.groups[g], num_tokens, sequence.num_computed_tokens) - held);
  }
  return static_cast<int32_t>(sum);
}

int32_t BlockTables::num_exclusive_blocks(KvSequenceId id) const {
  int32_t count = 0;
  for (const GroupTable& table : at(id).groups) {
    for (const BlockId block : table.blocks)
      count += block != kNullBlock && store_.pool().ref_cnt(block) == 1 ? 1 : 0;
  }
  return count;
}

int32_t BlockTables::num_shared_tokens(KvSequenceId id) const {
  const GroupTable& table = at(id).groups[0];
  int32_t count = 0;
  while (count < static_cast<int32_t>(table.blocks.size())) {
    const BlockId block = table.blocks[static_cast<size_t>(count)];
    if (block != kNullBlock && store_.pool().ref_cnt(block) < 2) break;
    ++count;
  }
  return std::min(count * spec_.block_size, at(id).num_computed_tokens);
}

int64_t BlockTables::num_unused_slots(const Sequence& sequence) const {
  int64_t sum = 0;
  for (const GroupTable& table : sequence.groups) {
    if (table.blocks.empty()) continue;
    sum +=
        static_cast<int64_t>(table.blocks.size()) * spec_.block_size - sequence.num_computed_tokens;
  }
  return sum;
}

}  // namespace quire
