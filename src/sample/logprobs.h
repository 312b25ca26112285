// Logarithms of the raw model distribution: before bias, penalties and temperature.
#pragma once

#include <cstdint>
#include <vector>

#include "core/step.h"
#include "sample/row_scan.h"
#include "sample/selection.h"

namespace quire {

// Log-probability and rank of `token_id`, and the `num_top` most likely tokens (-1: all). Rank
// counts the tokens that come before it when ties are ordered by id. `row` is finite and what
// `scanner` has last scanned; `token_id` is inside it. `scratch` is overwritten.
TokenLogprobs compute_logprobs(RowScanner& scanner, const ScannedRow& row, TokenId token_id,
                               int32_t num_top, std::vector<Candidate>& scratch);

}  // namespace quire
