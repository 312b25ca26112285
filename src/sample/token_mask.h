// Removes the tokens that a mask forbids from rows of logits (core/token_masks.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/cpu/sampling/row_scan.h"

namespace quire {

// Writes `logits` [V] to `row` (resized; its capacity is reused), with -infinity for each token
// whose bit in `mask` [ceil(V / 32)] is not set.
void apply_token_mask(std::span<const float> logits, std::span<const uint32_t> mask,
                      std::vector<float>& row);

// Returns the token with the greatest logit among those that `mask` allows, the first of equals; -1
// if it allows none.
TokenId greatest_allowed(const ScannedRow& row, std::span<const uint32_t> mask);

}  // namespace quire
