// A grouping sorts the pairs (token, choice) of a batch by expert, so that the rows of an expert
// are consecutive. The rows of one expert keep the order of their tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/kernel_tables.h"

namespace quire::cpu {

struct Grouping {
  int32_t num_active = 0;
  int32_t* active;     // [num_active] experts that have rows, ascending
  int32_t* first_row;  // [X + 1]: expert i has rows [first_row[i], first_row[i + 1])
  int32_t* token_of;   // [T * k] the token of a row
  int32_t* row_of;     // [T * k] the row of each pair, in the order of the pairs

  int64_t num_rows(int32_t expert) const { return first_row[expert + 1] - first_row[expert]; }

  static int64_t bytes(int64_t num_pairs, int64_t num_experts) {
    return round_up((2 * num_experts + 1 + 2 * num_pairs) * int64_t{sizeof(int32_t)}, 64);
  }
};

// Groups the pairs, in memory of Grouping::bytes() bytes.
inline Grouping group_pairs(const int32_t* expert_ids, int64_t num_tokens, int32_t per_token,
                            int32_t num_experts, void* memory) {
  const int64_t num_pairs = num_tokens * per_token;
  Grouping grouping;
  grouping.active = static_cast<int32_t*>(memory);
  grouping.first_row = grouping.active + num_experts;
  grouping.token_of = grouping.first_row + num_experts + 1;
  grouping.row_of = grouping.token_of + num_pairs;
  int32_t* first_row = grouping.first_row;
  std::fill_n(first_row, num_experts + 1, 0);
  for (int64_t i = 0; i < num_pairs; ++i) ++first_row[expert_ids[i]];
  int32_t end = 0;
  for (int32_t expert = 0; expert <= num_experts; ++expert) {
    const int32_t count = first_row[expert];
    if (count > 0 && expert < num_experts) grouping.active[grouping.num_active++] = expert;
    end += count;
    first_row[expert] = end;  // one past its last row, until the loop below counts down
  }
  for (int64_t i = num_pairs - 1; i >= 0; --i) {
    const int32_t row = --first_row[expert_ids[i]];
    grouping.row_of[i] = row;
    grouping.token_of[row] = static_cast<int32_t>(i / per_token);
  }
  return grouping;
}

}  // namespace quire::cpu
