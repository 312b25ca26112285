#include "kv/tables/block_sizing.h"

#include <algorithm>

#include "kv/groups/group_policy.h"

namespace quire {

BlockSizing::BlockSizing(const KvSpec& spec, const KvOptions& options)
    : spec_(spec),
      options_(options),
      blocks_leave_(options.reservation == KvReservation::kPaged &&
                    std::ranges::any_of(spec.groups, frees_while_growing)),
      num_attention_groups_(static_cast<int32_t>(
          std::ranges::count(spec.groups, KvPool::kAttention, &KvGroupSpec::pool))) {}

int64_t BlockSizing::reserved_tokens(int64_t num_tokens) const {
  return options_.reservation == KvReservation::kContiguousMaxLen
             ? std::max<int64_t>(num_tokens, options_.max_sequence_tokens)
             : num_tokens;
}

int64_t BlockSizing::most_blocks(int32_t g, int64_t num_tokens, int64_t num_computed_tokens) const {
  if (!blocks_leave_) return round_up_to_blocks(g, num_tokens);
  const int64_t remaining = std::max<int64_t>(1, num_tokens - num_computed_tokens);
  const int64_t step = options_.max_step_tokens > 0
                           ? std::min<int64_t>(remaining, options_.max_step_tokens)
                           : remaining;
  return max_held_blocks(group(g), block_size(g), num_tokens, static_cast<int32_t>(step));
}

BlockCounts BlockSizing::blocks_for(int64_t num_tokens) const {
  const int64_t reserved = reserved_tokens(num_tokens);
  BlockCounts sum;
  for (int32_t g = 0; g < num_groups(); ++g) sum[group(g).pool()] += most_blocks(g, reserved, 0);
  return sum;
}

BlockCounts BlockSizing::a_block_each() const {
  BlockCounts counts;
  for (const KvGroupSpec& group : spec_.groups) ++counts[group.pool()];
  return counts;
}

}  // namespace quire
