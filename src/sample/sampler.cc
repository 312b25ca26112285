#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "sample/logits_processors.h"
#include "sample/logprobs.h"
#include "sample/vector_math.h"

namespace quire {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kMinTemperature = 0.01f;  // below it (and not greedy) divisions would only amplify noise
constexpr size_t kChunk = 64;

// Standard Gumbel noise from 32 random bits. Drawn in double: the 24 bits of a float would cut the upper tail where
// unlikely tokens win.
double gumbel(uint32_t bits) {
  return -std::log(-std::log((static_cast<double>(bits) + 0.5) * 0x1p-32));
}

// No gumbel() exceeds this: -log(-log(1 - 2^-33)) = 22.87.
constexpr double kMaxGumbel = 22.9;

TokenId argmax(std::span<const float> row, float max) {
  return static_cast<TokenId>(std::find(row.begin(), row.end(), max) - row.begin());
}

// argmax(row[i] + noise(i)) over row[i] >= threshold; ties to the smaller id. Noise is a function of (seed, position,
// i), so chunks whose best logit cannot win even with the greatest noise are skipped without drawing any.
TokenId gumbel_argmax(std::span<const float> row, float threshold, uint64_t seed,
                      int32_t position) {
  const auto counter_low = static_cast<uint32_t>(position);
  TokenId best_token = -1;
  double best = -std::numeric_limits<double>::infinity();
  for (size_t begin = 0; begin < row.size(); begin += kChunk) {
    const auto chunk = row.subspan(begin, std::min(kChunk, row.size() - begin));
    const float chunk_max = max_of(chunk);
    if (chunk_max < threshold || static_cast<double>(chunk_max) + kMaxGumbel < best) continue;
    std::array<uint32_t, 4> words{};
    size_t drawn = std::numeric_limits<size_t>::max();
    for (size_t i = begin; i < begin + chunk.size(); ++i) {
      if (row[i] < threshold || static_cast<double>(row[i]) + kMaxGumbel < best) continue;
      if (drawn != i / 4) {
        drawn = i / 4;
        words = philox4x32(seed, {counter_low, 0, static_cast<uint32_t>(drawn), 0});
      }
      const double score = static_cast<double>(row[i]) + gumbel(words[i % 4]);
      if (score > best) {
        best = score;
        best_token = static_cast<TokenId>(i);
      }
    }
  }
  return best_token;
}

}  // namespace

Result<SampleOutput> Sampler::sample(const SampleInput& input) {
  if (input.logits.empty()) return internal_error("logits: expected a row, got none");
  if (!all_finite(input.logits)) {
    return internal_error("logits: expected finite values at position {}, got NaN or infinity",
                          input.position);
  }
  QUIRE_ASSIGN_OR_RETURN(const TokenId token_id, choose(input));
  SampleOutput output{token_id, std::nullopt};
  if (input.params.logprobs) {
    output.logprobs =
        compute_logprobs(input.logits, token_id, *input.params.logprobs, candidates_);
  }
  return output;
}

Result<TokenLogprobs> Sampler::logprobs(std::span<const float> logits, TokenId token_id,
                                        int32_t num_top) {
  if (!all_finite(logits)) {
    return internal_error("logits: expected finite values, got NaN or infinity");
  }
  return compute_logprobs(logits, token_id, num_top, candidates_);
}

Result<TokenId> Sampler::choose(const SampleInput& input) {
  std::span<const float> row = input.logits;
  if (needs_processing(input.params, input.num_output_tokens)) {
    process_logits(row, input.params, input.state, input.num_output_tokens, processed_);
    row = processed_;
  }
  const float max = max_of(row);
  if (!std::isfinite(max)) {
    return invalid_argument(
        "expected at least one token that may be sampled, got none: allowed_token_ids, bad_words, "
        "logit_bias and min_tokens forbid them all");
  }
  if (input.params.greedy()) return argmax(row, max);
  return draw(row, max, input.params, input.position);
}

TokenId Sampler::draw(std::span<const float> row, float max, const SamplingParams& params,
                      int32_t position) {
  const float temperature = std::max(params.temperature, kMinTemperature);
  scaled_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) scaled_[i] = (row[i] - max) / temperature;
  return gumbel_argmax(scaled_, cut_off(params), params.seed, position);
}

// The scaled logit below which min_p, top_k and top_p drop a token. The greatest scaled logit is 0.
float Sampler::cut_off(const SamplingParams& params) {
  float threshold = kLowest;
  if (params.min_p > 0) threshold = std::min(0.0f, std::log(params.min_p));
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < scaled_.size()) {
    threshold = std::max(threshold, kth_greatest(scaled_, params.top_k, candidates_));
  }
  if (params.top_p < 1) threshold = std::max(threshold, top_p_cut_off(params.top_p, threshold));
  return threshold;
}

// Least set of most likely tokens, among those at or above `threshold`, that holds `top_p` of their mass. Most rows
// are decided by the tokens that hold at least a thousandth each.
float Sampler::top_p_cut_off(float top_p, float threshold) {
  const double total = lane_sum(
      scaled_, [threshold](float x) { return x >= threshold ? exp_nonpositive(x) : 0.0f; });
  const double target = static_cast<double>(top_p) * total;
  const float likely = static_cast<float>(std::log(total) - std::log(1024.0));
  for (const float from : {std::max(threshold, likely), threshold}) {
    weighted_.clear();
    double mass = 0;
    for (size_t begin = 0; begin < scaled_.size(); begin += kChunk) {
      const auto chunk = std::span<const float>(scaled_).subspan(
          begin, std::min(kChunk, scaled_.size() - begin));
      if (max_of(chunk) < from) continue;
      for (const float x : chunk) {
        if (x < from) continue;
        weighted_.push_back({x, exp_nonpositive(x)});
        mass += static_cast<double>(weighted_.back().weight);
      }
    }
    if (mass >= target) break;
  }
  return mass_threshold(weighted_, target);
}

}  // namespace quire
