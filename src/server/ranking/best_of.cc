#include "server/ranking/best_of.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace quire::server {
namespace {

template <typename T>
void move_all(std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void append(OutputDelta& into, OutputDelta&& more) {
  into.text += more.text;
  move_all(more.token_ids, into.token_ids);
  move_all(more.text_ends_bytes, into.text_ends_bytes);
  move_all(more.logprobs, into.logprobs);
  move_all(more.prompt_logprobs, into.prompt_logprobs);
  into.num_cached_tokens = std::max(into.num_cached_tokens, more.num_cached_tokens);
  into.finish_reason = more.finish_reason;
  into.stop_reason = std::move(more.stop_reason);
  into.times = more.times;
  into.drafts = more.drafts;
}

double mean_logprob(const OutputDelta& candidate) {
  const double sum = std::accumulate(
      candidate.logprobs.begin(), candidate.logprobs.end(), 0.0,
      [](double total, const TokenLogprobs& token) { return total + double{token.logprob}; });
  return sum / static_cast<double>(std::max<size_t>(candidate.logprobs.size(), 1));
}

uint64_t bytes_of(const OutputDelta& delta) {
  uint64_t bytes = delta.text.size() + delta.token_ids.size() * sizeof(TokenId) +
                   delta.text_ends_bytes.size() * sizeof(int64_t);
  for (const auto* logprobs : {&delta.logprobs, &delta.prompt_logprobs}) {
    for (const TokenLogprobs& token : *logprobs)
      bytes += sizeof token + token.top.size() * sizeof token.top[0];
  }
  return bytes;
}

}  // namespace

BestOf::BestOf(int32_t num_candidates, int32_t num_wanted)
    : candidates_(static_cast<size_t>(num_candidates)),
      num_wanted_(static_cast<size_t>(num_wanted)),
      num_unfinished_(candidates_.size()) {
  QUIRE_CHECK(num_wanted >= 1 && num_wanted <= num_candidates, "{} of {} choices", num_wanted,
              num_candidates);
}

std::vector<OutputDelta> BestOf::add(OutputDelta delta) {
  held_bytes_ += bytes_of(delta);
  if (delta.finish_reason) --num_unfinished_;
  append(candidates_[static_cast<size_t>(delta.choice_index)], std::move(delta));
  if (num_unfinished_ > 0) return {};
  // The prompt's values come with the first candidate.
  std::vector<TokenLogprobs> prompt_logprobs = std::move(candidates_[0].prompt_logprobs);
  const int32_t num_cached_tokens = candidates_[0].num_cached_tokens;
  std::stable_sort(
      candidates_.begin(), candidates_.end(),
      [](const OutputDelta& a, const OutputDelta& b) { return mean_logprob(a) > mean_logprob(b); });
  for (size_t i = num_wanted_; i < candidates_.size(); ++i)
    num_other_tokens_ += std::ssize(candidates_[i].token_ids);
  candidates_.resize(num_wanted_);
  for (size_t i = 0; i < num_wanted_; ++i) candidates_[i].choice_index = static_cast<int32_t>(i);
  candidates_[0].prompt_logprobs = std::move(prompt_logprobs);
  candidates_[0].num_cached_tokens = num_cached_tokens;
  held_bytes_ = 0;
  return std::move(candidates_);
}

}  // namespace quire::server
