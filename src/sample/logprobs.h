// Logarithms of the raw model distribution: before bias, penalties and temperature.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/step.h"
#include "sample/selection.h"

namespace quire {

// log(sum(exp(row))), accumulated in one fixed order. `row` [V] is finite and not empty.
double log_sum_exp(std::span<const float> row);

// Log-probability and rank of `token_id`, and the `num_top` most likely tokens (-1: all). Rank
// counts the tokens that come before it when ties are ordered by id. `row` is finite; `token_id` is
// inside it. `scratch` is overwritten.
TokenLogprobs compute_logprobs(std::span<const float> row, TokenId token_id, int32_t num_top,
                               std::vector<Candidate>& scratch);

}  // namespace quire
