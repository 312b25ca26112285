#include "sample/transcript_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

void forbid(std::span<float> row, TokenId token_id) {
  if (token_id >= 0 && static_cast<size_t>(token_id) < row.size())
    row[static_cast<size_t>(token_id)] = kForbidden;
}

void forbid(std::span<float> row, const std::vector<TokenId>& token_ids) {
  for (const TokenId id : token_ids) forbid(row, id);
}

// Sets which of text and timestamps may come next, from the tokens so far.
void keep_order(const TranscriptRules& rules, const TranscriptProgress& progress,
                std::span<float> text, std::span<float> times) {
  if (progress.num_tokens == 0) {
    std::ranges::fill(text, kForbidden);
    const size_t num_first = static_cast<size_t>(std::max(rules.max_first_step, 0)) + 1;
    if (rules.max_first_step >= 0 && num_first < times.size())
      std::ranges::fill(times.subspan(num_first), kForbidden);
    return;
  }
  const bool is_behind_time = progress.last >= rules.first_timestamp;
  // The start of the output counts as a timestamp.
  const bool is_behind_pair =
      is_behind_time && (progress.num_tokens < 2 || progress.before_last >= rules.first_timestamp);
  if (is_behind_pair) {
    std::ranges::fill(times, kForbidden);
  } else if (is_behind_time) {
    const auto num_text = static_cast<size_t>(rules.end_of_text);
    std::ranges::fill(text.first(std::min(num_text, text.size())), kForbidden);
  }
  if (progress.last_timestamp < 0) return;
  // A segment begins at or after the end of the one before, and must end after its own begin.
  const bool begins = is_behind_time && !is_behind_pair;
  const auto first =
      static_cast<size_t>(progress.last_timestamp - rules.first_timestamp + (begins ? 0 : 1));
  std::ranges::fill(times.first(std::min(first, times.size())), kForbidden);
}

// Returns whether the probabilities of `times` have a greater sum than the greatest probability of
// `text`.
bool times_are_likelier(std::span<const float> text, std::span<const float> times) {
  if (text.empty() || times.empty()) return false;
  const float max_time = *std::ranges::max_element(times);
  if (!std::isfinite(max_time)) return false;
  const float max_text = *std::ranges::max_element(text);
  double sum = 0.0;
  for (const float logit : times) sum += std::exp(static_cast<double>(logit) - max_time);
  return max_time + std::log(sum) > static_cast<double>(max_text);
}

}  // namespace

void TranscriptProgress::append(const TranscriptRules& rules, TokenId token_id) {
  ++num_tokens;
  before_last = last;
  last = token_id;
  if (rules.has_timestamps() && token_id >= rules.first_timestamp) last_timestamp = token_id;
}

void apply_transcript_rules(std::span<const float> logits, const TranscriptRules& rules,
                            const TranscriptProgress& progress, std::vector<float>& row) {
  row.assign(logits.begin(), logits.end());
  forbid(row, rules.suppressed);
  if (progress.num_tokens == 0) forbid(row, rules.suppressed_first);
  if (!rules.has_timestamps()) return;
  forbid(row, rules.no_timestamps);
  const auto num_text = std::min(static_cast<size_t>(rules.first_timestamp), row.size());
  const std::span<float> text = std::span(row).first(num_text);
  const std::span<float> times = std::span(row).subspan(num_text);
  keep_order(rules, progress, text, times);
  if (times_are_likelier(text, times)) std::ranges::fill(text, kForbidden);
}

}  // namespace quire
