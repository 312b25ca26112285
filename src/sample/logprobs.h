// Log-probabilities of the model's own distribution: before bias, penalties and temperature.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/step.h"
#include "kernels/cpu/sampling/row_scan.h"
#include "sample/selection.h"

namespace quire {

// The tokens that are listed beside the chosen one: the `num_top` most likely ones (-1: all), or,
// if it is not empty, those of `token_ids`, which must lie inside the row. Either list begins with
// the most likely token.
struct LogprobAlternatives {
  int32_t num_top = 0;
  std::span<const TokenId> token_ids = {};
};

// Returns log-probability and rank of `token_id`, and those of the alternatives. The rank counts
// the tokens before it, where ties are ordered by id. `row` must be finite and the last row that
// `scanner` has scanned; `token_id` is inside it. `scratch` is overwritten.
TokenLogprobs compute_logprobs(RowScanner& scanner, const ScannedRow& row, TokenId token_id,
                               const LogprobAlternatives& alternatives,
                               std::vector<Candidate>& scratch);

}  // namespace quire
