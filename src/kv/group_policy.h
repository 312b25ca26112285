// What differs between kinds of KV groups: which blocks a sequence still needs. Pure arithmetic on
// token positions.
#pragma once

#include <cstdint>

#include "core/kv_spec.h"

namespace quire {

// The first block that is read when the token at position `num_computed_tokens` or a later one is
// computed; everything before it may be the null block. With a window w a query at position p reads
// positions p-w+1 .. p.
//
//   positions   0 ........ c-w ][ c-w+1 ........ c-1 ][ c
//               not read again  | first needed block |  next to compute
int32_t first_needed_block(const KvGroupSpec& group, int32_t block_size,
                           int64_t num_computed_tokens);

// Most blocks that one sequence of `num_tokens` tokens holds at once when no step computes more
// than max_step_tokens of it (0: no bound known).
int64_t max_held_blocks(const KvGroupSpec& group, int32_t block_size, int64_t num_tokens,
                        int32_t max_step_tokens);

}  // namespace quire
