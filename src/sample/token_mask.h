// Rows of logits without the tokens that a mask forbids (core/token_masks.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/cpu/sampling/row_scan.h"

namespace quire {

// Writes `logits` [V] to `row` (resized; capacity reused), -infinity where `mask` [ceil(V / 32)]
// has no bit.
void apply_token_mask(std::span<const float> logits, std::span<const uint32_t> mask,
                      std::vector<float>& row);

// The first of the greatest logits that `mask` has a bit for; -1: it has none.
TokenId greatest_allowed(const ScannedRow& row, std::span<const uint32_t> mask);

}  // namespace quire
