// The differences between kinds of KV groups, which no other file knows: which blocks a sequence
// still needs, which cached blocks make a prefix usable, whether a prefix may end inside a block,
// and how many blocks a sequence holds. Pure arithmetic on token positions. `block_size` is that of
// the group's pool.
#pragma once

#include <cstdint>

#include "core/kv_spec.h"

namespace quire {

// Returns how many tokens' content is read to compute a token, itself included; 0: that of all
// tokens before it. For a state it is 2: the state is read where the token before was.
constexpr int32_t window_of(const KvGroupSpec& group) {
  switch (group.kind) {
    case KvKind::kFull:
      return 0;
    case KvKind::kSlidingWindow:
      return group.sliding_window;
    case KvKind::kState:
      return 2;
  }
  return 0;
}

// Returns the first block that is read when the token at position `num_computed_tokens` or a later
// one is computed; all blocks before it may be the null block. With a window w, a query at position
// p reads positions p-w+1 .. p.
//
//   positions   0 ........ c-w ][ c-w+1 ........ c-1 ][ c
//               not read again  | first needed block |  next to compute
int32_t first_needed_block(const KvGroupSpec& group, int32_t block_size,
                           int64_t num_computed_tokens);

// Whether blocks leave a sequence's table while it grows.
constexpr bool frees_while_growing(const KvGroupSpec& group) { return window_of(group) > 0; }

// Whether every prefix of a usable prefix is usable too, so that a search may go from the left.
constexpr bool hits_any_shorter_prefix(const KvGroupSpec& group) { return window_of(group) == 0; }

// Whether the blocks of a sequence that has computed num_computed_tokens still have the content
// after `num_tokens` tokens. Keys and values of a token never change; a state is overwritten by the
// next token, unless that token lies in another block.
constexpr bool keeps_content_after(const KvGroupSpec& group, int32_t block_size, int64_t num_tokens,
                                   int64_t num_computed_tokens) {
  return group.kind != KvKind::kState || num_tokens == num_computed_tokens ||
         num_tokens % block_size == 0;
}

// Returns the most blocks that one sequence of `num_tokens` tokens holds at once when no step
// computes more than max_step_tokens of it (0: unknown).
int64_t max_held_blocks(const KvGroupSpec& group, int32_t block_size, int64_t num_tokens,
                        int32_t max_step_tokens);

// Returns the longest prefix, of at most num_blocks whole blocks, after which this group can
// continue. is_cached(i) says whether block i of the group is in the cache.
template <typename IsCached>
int32_t longest_usable_prefix(const KvGroupSpec& group, int32_t block_size, int32_t num_blocks,
                              IsCached&& is_cached) {
  if (hits_any_shorter_prefix(group)) {
    int32_t end = 0;
    while (end < num_blocks && is_cached(end)) ++end;
    return end;
  }
  // Only the last blocks of a prefix matter, so the search goes from the right.
  int32_t end = num_blocks;
  while (end > 0) {
    const int32_t first = first_needed_block(group, block_size, int64_t{end} * block_size);
    int32_t i = end;
    while (i > first && is_cached(i - 1)) --i;
    if (i == first) return end;
    end = i - 1;
  }
  return 0;
}

}  // namespace quire
