#include "engine/beam/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace quire {

BeamSearch::BeamSearch(int32_t width, int32_t num_prompt_tokens, const SamplingParams& params,
                       const BeamSearchParams& rule)
    : width_(width),
      num_prompt_tokens_(num_prompt_tokens),
      max_tokens_(params.max_tokens),
      num_candidates_(num_candidates(width, params)),
      num_logprobs_(params.logprobs),
      eos_token_ids_(params.ignore_eos ? std::vector<TokenId>() : params.eos_token_ids),
      rule_(rule),
      beams_(1),
      rows_(static_cast<size_t>(width)),
      has_candidates_(static_cast<size_t>(width)),
      places_{0} {
  QUIRE_CHECK(width >= 1 && max_tokens_ >= 1, "{} beams of {} tokens", width, max_tokens_);
}

int32_t BeamSearch::num_candidates(int32_t width, const SamplingParams& params) {
  const auto num_eos = params.ignore_eos ? 0 : static_cast<int32_t>(params.eos_token_ids.size());
  return std::max(2, 1 + num_eos) * width;
}

void BeamSearch::set_candidates(int32_t place, TokenLogprobs candidates) {
  QUIRE_CHECK(std::ssize(candidates.top) >= num_candidates_, "{} candidates, expected {}",
              candidates.top.size(), num_candidates_);
  rows_[static_cast<size_t>(place)] = std::move(candidates);
  has_candidates_[static_cast<size_t>(place)] = true;
}

std::span<const BeamSearch::Move> BeamSearch::advance() {
  moves_.clear();
  QUIRE_CHECK(!done_, "a search that is over goes on");
  collect();
  ++num_tokens_;
  rule_.early_stopping ? finish_hugging_face() : finish_vllm();
  go_on();
  has_candidates_.assign(has_candidates_.size(), false);
  done_ = is_over();
  if (!done_) assign_places();
  return moves_;
}

// Collects each beam's best continuations, in the order of the sums of log-probabilities.
void BeamSearch::collect() {
  candidates_.clear();
  for (size_t beam = 0; beam < beams_.size(); ++beam) {
    const TokenLogprobs& row = rows_[static_cast<size_t>(beams_[beam].place)];
    for (int32_t i = 0; i < num_candidates_; ++i) {
      const auto& [token_id, logprob] = row.top[static_cast<size_t>(i)];
      candidates_.push_back({.beam = static_cast<int32_t>(beam),
                             .index = i,
                             .token_id = token_id,
                             .logprob = beams_[beam].logprob + double{logprob},
                             .ends = ends(token_id)});
    }
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    if (a.logprob != b.logprob) return a.logprob > b.logprob;
    if (a.beam != b.beam) return a.beam < b.beam;
    return a.token_id < b.token_id;
  });
}

// Every EOS finishes a copy of its beam, whose length does not count the EOS.
void BeamSearch::finish_vllm() {
  for (const Candidate& candidate : candidates_) {
    if (candidate.ends)
      finish(candidate, score(candidate.logprob, num_prompt_tokens_ + num_tokens_ - 1), true);
  }
  if (num_tokens_ < max_tokens_) return;
  int32_t num_left = width_;
  for (const Candidate& candidate : candidates_) {
    if (candidate.ends) continue;
    finish(candidate, score(candidate.logprob, num_prompt_tokens_ + num_tokens_), false);
    if (--num_left == 0) break;
  }
}

// Only continuations among the best `width` of all beams may finish.
void BeamSearch::finish_hugging_face() {
  candidates_.resize(static_cast<size_t>(num_candidates_));
  const bool is_full = std::ssize(finished_) == width_;
  if (is_full && *rule_.early_stopping == EarlyStopping::kYes) return;
  for (int32_t i = 0; i < width_; ++i) {
    const Candidate& candidate = candidates_[static_cast<size_t>(i)];
    if (candidate.ends || num_tokens_ == max_tokens_)
      finish(candidate, score(candidate.logprob, num_tokens_), candidate.ends);
  }
}

// Keeps the best `width` texts; ties go to those that were first.
void BeamSearch::finish(const Candidate& candidate, double score, bool stopped) {
  const auto place =
      std::upper_bound(finished_.begin(), finished_.end(), score,
                       [](double value, const Finished& other) { return value > other.score; });
  if (place == finished_.end() && std::ssize(finished_) == width_) return;
  finished_.insert(place, {.node = add_node(candidate), .score = score, .stopped = stopped});
  if (std::ssize(finished_) > width_) finished_.pop_back();
}

// The best continuations that do not end a text become the beams. They have no places of their own
// yet: `place` is that of the parent.
void BeamSearch::go_on() {
  std::vector<Beam> next;
  next.reserve(static_cast<size_t>(width_));
  for (const Candidate& candidate : candidates_) {
    if (candidate.ends) continue;
    next.push_back({.node = add_node(candidate),
                    .logprob = candidate.logprob,
                    .place = beams_[static_cast<size_t>(candidate.beam)].place});
    if (std::ssize(next) == width_) break;
  }
  beams_ = std::move(next);
}

bool BeamSearch::is_over() const {
  if (num_tokens_ == max_tokens_ || beams_.empty()) return true;
  if (std::ssize(finished_) < width_) return false;
  if (rule_.early_stopping == EarlyStopping::kYes) return true;
  // The best score that a running beam may reach. Under vLLM's rule no beam is cut off that could
  // still be among the best: sums of log-probabilities only decrease.
  const bool as_long_as_may_be =
      rule_.length_penalty > 0 && rule_.early_stopping != EarlyStopping::kNo;
  const int32_t length = (rule_.early_stopping ? 0 : num_prompt_tokens_) +
                         (as_long_as_may_be ? max_tokens_ : num_tokens_);
  return score(beams_.front().logprob, length) <= finished_.back().score;
}

void BeamSearch::assign_places() {
  // The beam that stays in each place.
  std::vector<int32_t> child_of(static_cast<size_t>(width_), -1);
  for (size_t i = 0; i < beams_.size(); ++i) {
    int32_t& child = child_of[static_cast<size_t>(beams_[i].place)];
    if (child < 0) child = static_cast<int32_t>(i);
  }
  places_.clear();
  int32_t next_free = 0;
  for (size_t i = 0; i < beams_.size(); ++i) {
    Beam& beam = beams_[i];
    const int32_t parent = beam.place;
    if (child_of[static_cast<size_t>(parent)] != static_cast<int32_t>(i)) {
      while (child_of[static_cast<size_t>(next_free)] >= 0) ++next_free;
      beam.place = next_free++;
    }
    places_.push_back(beam.place);
    moves_.push_back({.place = beam.place,
                      .parent = parent,
                      .token_id = nodes_[static_cast<size_t>(beam.node)].token.token_id});
  }
}

double BeamSearch::score(double logprob, int32_t length) const {
  return logprob / std::pow(static_cast<double>(length), double{rule_.length_penalty});
}

bool BeamSearch::ends(TokenId token_id) const {
  return std::find(eos_token_ids_.begin(), eos_token_ids_.end(), token_id) != eos_token_ids_.end();
}

int32_t BeamSearch::add_node(const Candidate& candidate) {
  const Beam& parent = beams_[static_cast<size_t>(candidate.beam)];
  const TokenLogprobs& row = rows_[static_cast<size_t>(parent.place)];
  const auto& [token_id, logprob] = row.top[static_cast<size_t>(candidate.index)];
  Node node{.parent = parent.node,
            .token = {.token_id = token_id, .logprob = logprob, .rank = candidate.index + 1}};
  if (num_logprobs_) {
    const auto all = std::ssize(row.top);
    const auto n = *num_logprobs_ < 0 ? all : std::min<std::ptrdiff_t>(*num_logprobs_, all);
    node.token.top.assign(row.top.begin(), row.top.begin() + n);
  }
  nodes_.push_back(std::move(node));
  return static_cast<int32_t>(nodes_.size()) - 1;
}

std::vector<BeamSearch::Text> BeamSearch::best() const {
  std::vector<Text> texts;
  for (const Finished& finished : finished_) {
    Text& text = texts.emplace_back();
    text.stopped = finished.stopped;
    text.score = finished.score;
    for (int32_t i = finished.node; i >= 0; i = nodes_[static_cast<size_t>(i)].parent) {
      const Node& node = nodes_[static_cast<size_t>(i)];
      text.token_ids.push_back(node.token.token_id);
      if (num_logprobs_) text.logprobs.push_back(node.token);
    }
    std::reverse(text.token_ids.begin(), text.token_ids.end());
    std::reverse(text.logprobs.begin(), text.logprobs.end());
  }
  return texts;
}

}  // namespace quire
