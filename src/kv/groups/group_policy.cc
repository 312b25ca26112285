#include "kv/groups/group_policy.h"

#include <algorithm>

namespace quire {

int32_t first_needed_block(const KvGroupSpec& group, int32_t block_size,
                           int64_t num_computed_tokens) {
  if (!frees_while_growing(group)) return 0;
  const int64_t first_position = num_computed_tokens - window_of(group) + 1;
  return first_position <= 0 ? 0 : static_cast<int32_t>(first_position / block_size);
}

int64_t max_held_blocks(const KvGroupSpec& group, int32_t block_size, int64_t num_tokens,
                        int32_t max_step_tokens) {
  const int64_t all = (num_tokens + block_size - 1) / block_size;
  if (!frees_while_growing(group) || max_step_tokens <= 0) return all;
  // The window before the step, and the step itself. Both may begin and end inside a block.
  const int64_t positions = int64_t{window_of(group)} - 1 + max_step_tokens;
  return std::min(all, (positions + block_size - 1) / block_size + 1);
}

}  // namespace quire
