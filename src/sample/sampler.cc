#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sample/gumbel_argmax.h"
#include "sample/logits_processors.h"
#include "sample/logprobs.h"
#include "sample/vector_math.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kMinTemperature =
    0.01f;  // below it (and not greedy) divisions would only amplify noise

TokenId argmax(const ScannedRow& row, float max) {
  const auto chunk = std::find(row.chunk_max.begin(), row.chunk_max.end(), max);
  const auto c = static_cast<size_t>(chunk - row.chunk_max.begin());
  const std::span<const float> values = row.chunk(c);
  return static_cast<TokenId>(c * kRowChunk) +
         static_cast<TokenId>(std::find(values.begin(), values.end(), max) - values.begin());
}

// Scaled logits between which the mass of all at or above crosses a target: mass(low) >= target >
// mass(high) = mass_at_high.
struct Band {
  float low;
  float high;
  double mass_at_high;
};

// Narrows a band by looking at 8 places inside it at a time.
Band narrow(const RowKernels& kernels, const ScannedRow& row, LogitScale scale, double target,
            Band band) {
  constexpr float kNarrow = 1.0f / 32;  // a few thousand of 150,000 tokens at most
  constexpr int kPlaces = 8;
  constexpr int kMaxRounds = 6;
  for (int round = 0; round < kMaxRounds && band.high - band.low > kNarrow; ++round) {
    std::array<float, kPlaces> places;
    std::array<double, kPlaces> mass;
    const float step = (band.high - band.low) / (kPlaces + 1);
    for (int i = 0; i < kPlaces; ++i) places[i] = band.high - step * static_cast<float>(i + 1);
    kernels.mass_above(row.row.data(), static_cast<int64_t>(row.row.size()), scale, places.data(),
                       mass.data());
    for (size_t i = 0; i < kPlaces; ++i) {
      if (mass[i] >= target) {
        band.low = places[i];
        break;
      }
      band.high = places[i];
      band.mass_at_high = mass[i];
    }
  }
  return band;
}

}  // namespace

Result<SampleOutput> Sampler::sample(const SampleInput& input) {
  if (input.logits.empty()) return internal_error("logits: expected a row, got none");
  const ScannedRow row = scanner_.scan(input.logits);
  if (!scanner_.all_finite()) {
    return internal_error("logits: expected finite values at position {}, got NaN or infinity",
                          input.position);
  }
  SampleOutput output;
  QUIRE_ASSIGN_OR_RETURN(output.token_id, choose(input, row));
  if (input.params.logprobs) {
    // Again: the choice may have scanned the processed row.
    output.logprobs = compute_logprobs(scanner_, scanner_.scan(input.logits), output.token_id,
                                       *input.params.logprobs, candidates_);
  }
  return output;
}

Result<TokenLogprobs> Sampler::logprobs(std::span<const float> logits, TokenId token_id,
                                        int32_t num_top) {
  const ScannedRow row = scanner_.scan(logits);
  if (!scanner_.all_finite()) {
    return internal_error("logits: expected finite values, got NaN or infinity");
  }
  return compute_logprobs(scanner_, row, token_id, num_top, candidates_);
}

Result<TokenId> Sampler::choose(const SampleInput& input, const ScannedRow& logits) {
  ScannedRow row = logits;
  if (needs_processing(input.params, input.num_output_tokens)) {
    process_logits(row.row, input.params, input.state, input.num_output_tokens, processed_);
    row = scanner_.scan(processed_);
  }
  const float max = row.max();
  if (!std::isfinite(max)) {
    return invalid_argument(
        "expected at least one token that may be sampled, got none: allowed_token_ids, bad_words, "
        "logit_bias and min_tokens forbid them all");
  }
  if (input.params.greedy()) return argmax(row, max);
  return draw(row, input.params, input.position);
}

TokenId Sampler::draw(const ScannedRow& row, const SamplingParams& params, int32_t position) {
  const LogitScale scale{
      .max = row.max(),
      .inverse_temperature = 1.0f / std::max(params.temperature, kMinTemperature)};
  return gumbel_argmax(scanner_.kernels(), {.row = row,
                                            .scale = scale,
                                            .threshold = cut_off(row, scale, params),
                                            .seed = params.seed,
                                            .position = position});
}

// The scaled logit below which min_p, top_k and top_p drop a token. The greatest scaled logit is 0.
float Sampler::cut_off(const ScannedRow& row, LogitScale scale, const SamplingParams& params) {
  float threshold = kLowest;
  if (params.min_p > 0) threshold = std::min(0.0f, std::log(params.min_p));
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < row.row.size()) {
    threshold = std::max(threshold, scale.of(kth_greatest(row, params.top_k, candidates_)));
  }
  if (params.top_p < 1) threshold = top_p_cut_off(row, scale, params.top_p, threshold);
  return threshold;
}

// Least set of most likely tokens, among those at or above `threshold`, that holds `top_p` of their
// mass. Most rows are decided by the tokens that hold at least a thousandth each; the others by
// finding a narrow band that the set ends in.
float Sampler::top_p_cut_off(const ScannedRow& row, LogitScale scale, float top_p,
                             float threshold) {
  const double total = scanner_.exp_total(row, scale, threshold);
  const double target = static_cast<double>(top_p) * total;
  const float likely = std::max(threshold, static_cast<float>(std::log(total) - std::log(1024.0)));
  gather(row, scale, {.low = likely, .below = kInfinity});
  double mass = 0;
  for (const WeightedValue& item : weighted_) mass += static_cast<double>(item.weight);
  if (mass >= target && !weighted_.empty()) return mass_threshold(weighted_, target);
  if (likely == threshold) return threshold;  // all there are, short by rounding only

  // Everything below `rest` together weighs less than 1 - top_p of the total.
  const double spare = (1.0 - static_cast<double>(top_p)) * total;
  const double rest = std::log(spare / static_cast<double>(row.row.size()) * 0.5);
  const float low = std::max(threshold, static_cast<float>(std::max(rest, -87.0)));
  if (low >= likely) return threshold;
  const Band band = narrow(scanner_.kernels(), row, scale, target,
                           {.low = low, .high = likely, .mass_at_high = mass});
  gather(row, scale, {.low = band.low, .below = band.high});
  return weighted_.empty() ? band.low : mass_threshold(weighted_, target - band.mass_at_high);
}

// All within `range`, and what they weigh.
void Sampler::gather(const ScannedRow& row, LogitScale scale, ScaledRange range) {
  const std::span<const float> found = scanner_.collect(row, scale, range);
  weighted_.clear();
  for (const float scaled : found) weighted_.push_back({scaled, exp_nonpositive(scaled)});
}

}  // namespace quire
