// Changes to a row of logits before a token is chosen, in DESIGN's order: allowed tokens, bad
// words, bias, penalties, min_tokens. A forbidden token's logit becomes -infinity.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sampling_params.h"
#include "sample/sampler_state.h"

namespace quire {

// Whether process_logits would change anything.
bool needs_processing(const SamplingParams& params, int32_t num_output_tokens);

// Whether a row wants nothing but the token of its greatest logit, of those that a mask leaves.
bool wants_greatest(const SamplingParams& params, int32_t num_output_tokens);

// Writes the processed copy of `logits` [V] to `row` (resized; capacity reused). Ids outside the
// row are ignored.
void process_logits(std::span<const float> logits, const SamplingParams& params,
                    const SamplerState& state, int32_t num_output_tokens, std::vector<float>& row);

}  // namespace quire
