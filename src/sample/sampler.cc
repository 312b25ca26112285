#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sample/gumbel_argmax.h"
#include "sample/logits_processors.h"
#include "sample/logprobs.h"
#include "sample/token_mask.h"
#include "sample/transcript_filter.h"

namespace quire {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

TokenId argmax(const ScannedRow& row, float max) {
  const auto chunk = std::find(row.chunk_max.begin(), row.chunk_max.end(), max);
  const auto c = static_cast<size_t>(chunk - row.chunk_max.begin());
  const std::span<const float> values = row.chunk(c);
  return static_cast<TokenId>(c * kRowChunk) +
         static_cast<TokenId>(std::find(values.begin(), values.end(), max) - values.begin());
}

}  // namespace

Status not_finite(int32_t position) {
  return internal_error("logits: expected finite values at position {}, got NaN or infinity",
                        position);
}

Status all_forbidden() {
  return invalid_argument(
      "expected at least one token that may be sampled, got none: allowed_token_ids, bad_words, "
      "logit_bias, min_tokens and the output's grammar forbid them all");
}

Result<SampleOutput> Sampler::sample(const SampleInput& input) {
  if (input.logits.empty()) return internal_error("logits: expected a row, got none");
  std::span<const float> logits = input.logits;
  ScannedRow row = scanner_.scan(logits);
  if (!scanner_.all_finite()) {
    return not_finite(input.position);
  }
  if (!input.token_mask.empty() && wants_greatest(input.params, input.num_output_tokens)) {
    const TokenId id = greatest_allowed(row, input.token_mask);
    if (id < 0) return all_forbidden();
    return SampleOutput{.token_id = id, .logprobs = {}};
  }
  if (!input.token_mask.empty()) {
    apply_token_mask(logits, input.token_mask, masked_);
    logits = masked_;
    row = scanner_.scan(logits);
  }
  if (input.params.transcript_rules != nullptr) {
    apply_transcript_rules(logits, *input.params.transcript_rules, input.state.transcript(),
                           transcript_);
    logits = transcript_;
    row = scanner_.scan(logits);
  }
  SampleOutput output;
  QUIRE_ASSIGN_OR_RETURN(output.token_id, choose(input, row));
  if (input.params.logprobs) {
    // Scans the row again, because choose() may have scanned the processed row.
    output.logprobs = compute_logprobs(
        scanner_, scanner_.scan(logits), output.token_id,
        {.num_top = *input.params.logprobs, .token_ids = input.params.logprob_token_ids},
        candidates_);
  }
  return output;
}

Result<TokenLogprobs> Sampler::logprobs(std::span<const float> logits, TokenId token_id,
                                        int32_t num_top) {
  const ScannedRow row = scanner_.scan(logits);
  if (!scanner_.all_finite()) {
    return internal_error("logits: expected finite values, got NaN or infinity");
  }
  return compute_logprobs(scanner_, row, token_id, {.num_top = num_top}, candidates_);
}

Result<TokenId> Sampler::choose(const SampleInput& input, const ScannedRow& logits) {
  ScannedRow row = logits;
  if (needs_processing(input.params, input.num_output_tokens)) {
    process_logits(row.row, input.params, input.state, input.num_output_tokens, processed_);
    row = scanner_.scan(processed_);
  }
  const float max = row.max();
  if (!std::isfinite(max)) return all_forbidden();
  if (input.params.greedy()) return argmax(row, max);
  return draw(row, input.params, input.position);
}

TokenId Sampler::draw(const ScannedRow& row, const SamplingParams& params, int32_t position) {
  const LogitScale scale{
      .max = row.max(),
      .inverse_temperature = 1.0f / std::max(params.temperature, SamplingParams::kMinTemperature)};
  return gumbel_argmax(scanner_.kernels(), {.row = row,
                                            .scale = scale,
                                            .threshold = cut_off(row, scale, params),
                                            .seed = params.seed.value_or(0),
                                            .position = position});
}

// Returns the scaled logit below which min_p, top_k and top_p remove a token. The greatest scaled
// logit is 0.
float Sampler::cut_off(const ScannedRow& row, LogitScale scale, const SamplingParams& params) {
  float threshold = kLowest;
  if (params.min_p > 0) threshold = std::min(0.0f, std::log(params.min_p));
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < row.row.size()) {
    threshold =
        std::max(threshold, scale.of(kth_greatest(scanner_, row, params.top_k, candidates_)));
  }
  if (params.top_p < 1) threshold = top_p_.cut_off(scanner_, row, scale, params.top_p, threshold);
  return threshold;
}

}  // namespace quire
