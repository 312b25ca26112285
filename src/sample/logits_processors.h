// Changes to a row of logits before a token is chosen, in this order: allowed tokens, bad words,
// bias, penalties, min_tokens. The logit of a forbidden token becomes -infinity.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sampling_params.h"
#include "sample/sampler_state.h"

namespace quire {

// Returns whether process_logits() would change anything.
bool needs_processing(const SamplingParams& params, int32_t num_output_tokens);

// Returns whether a row wants nothing but the token with the greatest logit among those that its
// mask allows.
bool wants_greatest(const SamplingParams& params, int32_t num_output_tokens);

// Writes the processed copy of `logits` [V] to `row` (resized; its capacity is reused). Ids beyond
// the row are ignored.
void process_logits(std::span<const float> logits, const SamplingParams& params,
                    const SamplerState& state, int32_t num_output_tokens, std::vector<float>& row);

}  // namespace quire
