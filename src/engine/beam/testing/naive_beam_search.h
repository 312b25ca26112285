// For tests: beam search in its simplest form, with whole texts and sorted lists, without places
// and without shortcuts.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "core/beam_search_params.h"
#include "core/sampling_params.h"

namespace quire::test {

struct NaiveBeamSearch {
  struct Text {
    std::vector<TokenId> token_ids;
    double score = 0;  // while the search runs: the sum of log-probabilities
    bool stopped = false;
  };
  using Candidates = std::vector<std::pair<TokenId, float>>;

  int32_t width = 1;
  int32_t num_prompt_tokens = 1;
  SamplingParams params;
  BeamSearchParams rule;
  std::function<Candidates(const std::vector<TokenId>&)> candidates;  // all tokens, best first

  std::vector<Text> run() const { return rule.early_stopping ? hugging_face() : vllm(); }

 private:
  bool ends(TokenId id) const {
    const auto& eos = params.eos_token_ids;
    return !params.ignore_eos && std::find(eos.begin(), eos.end(), id) != eos.end();
  }
  double penalized(double sum, size_t length) const {
    return sum / std::pow(static_cast<double>(length), double{rule.length_penalty});
  }
  size_t num_candidates() const {
    const size_t num_eos = params.ignore_eos ? 0 : params.eos_token_ids.size();
    return std::max<size_t>(2, 1 + num_eos) * static_cast<size_t>(width);
  }
  // Returns every beam's best continuations. Ties go to better beams, then to smaller ids.
  std::vector<Text> expand(const std::vector<Text>& beams) const {
    std::vector<Text> all;
    for (const Text& beam : beams) {
      const Candidates row = candidates(beam.token_ids);
      Candidates best(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(num_candidates()));
      std::sort(best.begin(), best.end());
      for (const auto& [id, logprob] : best) {
        all.push_back({beam.token_ids, beam.score + double{logprob}, ends(id)});
        all.back().token_ids.push_back(id);
      }
    }
    return sorted(std::move(all));
  }
  static std::vector<Text> sorted(std::vector<Text> texts) {
    std::stable_sort(texts.begin(), texts.end(),
                     [](const Text& a, const Text& b) { return a.score > b.score; });
    return texts;
  }
  static void keep(std::vector<Text>& texts, int32_t count) {
    if (std::ssize(texts) > count) texts.resize(static_cast<size_t>(count));
  }
  std::vector<Text> running(std::vector<Text> all) const {
    std::erase_if(all, [](const Text& text) { return text.stopped; });
    keep(all, width);
    return all;
  }

  std::vector<Text> vllm() const {
    std::vector<Text> beams(1);
    std::vector<Text> finished;
    for (int32_t step = 0; step < params.max_tokens; ++step) {
      const std::vector<Text> all = expand(beams);
      for (const Text& text : all) {
        if (!text.stopped) continue;
        finished.push_back(text);
        finished.back().score =
            penalized(text.score, static_cast<size_t>(num_prompt_tokens + step));
      }
      beams = running(all);
    }
    for (Text& beam : beams) {
      beam.score =
          penalized(beam.score, static_cast<size_t>(num_prompt_tokens) + beam.token_ids.size());
      finished.push_back(beam);
    }
    finished = sorted(std::move(finished));
    keep(finished, width);
    return finished;
  }

  std::vector<Text> hugging_face() const {
    std::vector<Text> beams(1);
    std::vector<Text> finished;
    for (int32_t length = 1;; ++length) {
      std::vector<Text> all = expand(beams);
      keep(all, static_cast<int32_t>(num_candidates()));
      const bool last = length == params.max_tokens;
      const bool full = std::ssize(finished) == width;
      for (int32_t i = 0; i < width; ++i) {
        const Text& text = all[static_cast<size_t>(i)];
        if (!text.stopped && !last) continue;
        if (full && rule.early_stopping == EarlyStopping::kYes) continue;
        finished.push_back(text);
        finished.back().score = penalized(text.score, static_cast<size_t>(length));
      }
      finished = sorted(std::move(finished));
      keep(finished, width);
      beams = running(all);
      if (last) return finished;
      if (std::ssize(finished) < width) continue;
      if (rule.early_stopping == EarlyStopping::kYes) return finished;
      const bool as_long_as_may_be =
          rule.early_stopping == EarlyStopping::kNever && rule.length_penalty > 0;
      const int32_t hoped = as_long_as_may_be ? params.max_tokens : length;
      if (penalized(beams.front().score, static_cast<size_t>(hoped)) <= finished.back().score)
        return finished;
    }
  }
};

}  // namespace quire::test
