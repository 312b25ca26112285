// Rows of logits without the tokens that a mask forbids (core/token_masks.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Writes `logits` [V] to `row` (resized; capacity reused), -infinity where `mask` [ceil(V / 32)]
// has no bit.
void apply_token_mask(std::span<const float> logits, std::span<const uint32_t> mask,
                      std::vector<float>& row);

}  // namespace quire
