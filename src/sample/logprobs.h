// Logarithms of the raw model distribution: before bias, penalties and temperature.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/step.h"
#include "kernels/cpu/sampling/row_scan.h"
#include "sample/selection.h"

namespace quire {

// Which tokens are listed beside the chosen one: the `num_top` most likely (-1: all) or, unless it
// is empty, those of `token_ids`, which lie inside the row. Both lists begin with the most likely.
struct LogprobAlternatives {
  int32_t num_top = 0;
  std::span<const TokenId> token_ids = {};
};

// Log-probability and rank of `token_id`, and those of the alternatives. Rank
// counts the tokens that come before it when ties are ordered by id. `row` is finite and what
// `scanner` has last scanned; `token_id` is inside it. `scratch` is overwritten.
TokenLogprobs compute_logprobs(RowScanner& scanner, const ScannedRow& row, TokenId token_id,
                               const LogprobAlternatives& alternatives,
                               std::vector<Candidate>& scratch);

}  // namespace quire
