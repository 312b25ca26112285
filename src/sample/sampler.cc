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
constexpr float kMinTemperature =
    0.01f;  // below it (and not greedy) divisions would only amplify noise
constexpr size_t kChunk = 64;

// Standard Gumbel noise from 32 random bits. Drawn in double: the 24 bits of a float would cut the
// upper tail where unlikely tokens win.
double gumbel(uint32_t bits) {
  return -std::log(-std::log((static_cast<double>(bits) + 0.5) * 0x1p-32));
}

// No gumbel() exceeds this: -log(-log(1 - 2^-33)) = 22.87.
constexpr double kMaxGumbel = 22.9;

TokenId argmax(std::span<const float> row, float max) {
  return static_cast<TokenId>(std::find(row.begin(), row.end(), max) - row.begin());
}

// argmax(row[i] + gumbel(word i)) over row[i] >= threshold; ties to the smaller id. Word i is a
// function of (seed, position, i) alone: word i % 4 of Philox block i / 4.
//
// Few tokens ever lead, and only for those logarithms are taken. Token i beats `best` when
// -log(u) < x = exp(row[i] - best); since -log(u) >= 1 - u, it cannot when 1 - u >= x. That test,
// with a margin for rounding, runs over whole chunks at once.
class GumbelArgmax {
 public:
  GumbelArgmax(std::span<const float> row, float threshold, uint64_t seed, int32_t position)
      : row_(row), threshold_(threshold), seed_(seed), position_(static_cast<uint32_t>(position)) {}

  TokenId find() {
    for (size_t begin = 0; begin < row_.size(); begin += kChunk) {
      const auto chunk = row_.subspan(begin, std::min(kChunk, row_.size() - begin));
      const float chunk_max = max_of(chunk);
      if (chunk_max < threshold_ || static_cast<double>(chunk_max) + kMaxGumbel < best_) continue;
      philox4x32_x16(seed_, {position_, 0, static_cast<uint32_t>(begin / 4), 0}, words_);
      if (!any_may_lead(chunk)) continue;
      for (size_t i = 0; i < chunk.size(); ++i) {
        if (chunk[i] < threshold_) continue;
        const double score = static_cast<double>(chunk[i]) + gumbel(words_[i]);
        if (score <= best_) continue;
        best_ = score;
        best_token_ = static_cast<TokenId>(begin + i);
      }
    }
    return best_token_;
  }

 private:
  bool any_may_lead(std::span<const float> chunk) const {
    if (best_token_ < 0) return true;
    constexpr float kMargin = 1.0001f;
    const auto best = static_cast<float>(best_);
    uint32_t any = 0;
    for (size_t i = 0; i < chunk.size(); ++i) {
      const float lead = chunk[i] - best;
      const float x = exp_nonpositive(lead < 0 ? lead : 0.0f) * kMargin;
      const float rest = static_cast<float>(static_cast<int32_t>(~words_[i] >> 8)) * 0x1p-24f;
      any |= static_cast<uint32_t>(rest < x) & static_cast<uint32_t>(chunk[i] >= threshold_);
    }
    return any != 0;
  }

  const std::span<const float> row_;
  const float threshold_;
  const uint64_t seed_;
  const uint32_t position_;
  std::array<uint32_t, 64> words_{};
  double best_ = -std::numeric_limits<double>::infinity();
  TokenId best_token_ = -1;
};
static_assert(kChunk == 64, "a chunk takes 16 blocks of 4 words");

// Width and number of the buckets in which top_p weighs logits by their distance from the greatest.
constexpr float kBucketsPerUnit = 32;
constexpr size_t kNumBuckets = 2048;

size_t bucket_of(float scaled) {
  const float bucket = -scaled * kBucketsPerUnit;
  return bucket < static_cast<float>(kNumBuckets - 1) ? static_cast<size_t>(bucket)
                                                      : kNumBuckets - 1;
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
    output.logprobs = compute_logprobs(input.logits, token_id, *input.params.logprobs, candidates_);
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
  return GumbelArgmax(scaled_, cut_off(params), params.seed, position).find();
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

// Least set of most likely tokens, among those at or above `threshold`, that holds `top_p` of their
// mass. Most rows are decided by the tokens that hold at least a thousandth each; the others by
// weighing all in buckets.
float Sampler::top_p_cut_off(float top_p, float threshold) {
  weights_.resize(scaled_.size());
  for (size_t i = 0; i < scaled_.size(); ++i) {
    const float weight = exp_nonpositive(scaled_[i]);
    weights_[i] = scaled_[i] >= threshold ? weight : 0.0f;
  }
  const double total = lane_sum(weights_, [](float weight) { return weight; });
  const double target = static_cast<double>(top_p) * total;
  const float likely = std::max(threshold, static_cast<float>(std::log(total) - std::log(1024.0)));
  gather(likely, 0.0f);
  double mass = 0;
  for (const WeightedValue& item : weighted_) mass += static_cast<double>(item.weight);
  if (mass >= target && !weighted_.empty()) return mass_threshold(weighted_, target);

  bucket_mass_.assign(kNumBuckets, 0.0);
  for (size_t i = 0; i < scaled_.size(); ++i) {
    if (weights_[i] > 0) bucket_mass_[bucket_of(scaled_[i])] += static_cast<double>(weights_[i]);
  }
  size_t bucket = 0,
         last = 0;  // `last`: the last bucket that is not empty, in case rounding hides the target
  for (double above = 0; bucket < kNumBuckets && above + bucket_mass_[bucket] < target; ++bucket) {
    above += bucket_mass_[bucket];
    if (bucket_mass_[bucket] > 0) last = bucket;
  }
  if (bucket == kNumBuckets) bucket = last;
  double above = 0;
  for (size_t b = 0; b < bucket; ++b) above += bucket_mass_[b];
  gather(-static_cast<float>(bucket + 1) / kBucketsPerUnit,
         -static_cast<float>(bucket) / kBucketsPerUnit);
  std::erase_if(weighted_, [bucket](const WeightedValue& item) {
    return item.weight == 0 || bucket_of(item.value) != bucket;
  });
  return weighted_.empty() ? threshold : mass_threshold(weighted_, target - above);
}

// All with low <= scaled <= high.
void Sampler::gather(float low, float high) {
  weighted_.clear();
  for (size_t begin = 0; begin < scaled_.size(); begin += kChunk) {
    const size_t end = std::min(begin + kChunk, scaled_.size());
    if (max_of(std::span<const float>(scaled_).subspan(begin, end - begin)) < low) continue;
    for (size_t i = begin; i < end; ++i) {
      if (scaled_[i] >= low && scaled_[i] <= high) weighted_.push_back({scaled_[i], weights_[i]});
    }
  }
}

}  // namespace quire
