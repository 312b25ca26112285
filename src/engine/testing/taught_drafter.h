// For tests: a drafter that is taught answers, and makes mistakes as a test wants.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "draft/drafter.h"

namespace quire::test {

class TaughtDrafter : public Drafter {
 public:
  // Teaches the answer of a request with this prompt and seed, when nothing stops it.
  void teach(std::vector<TokenId> prompt, uint64_t seed, std::vector<TokenId> answer) {
    answers_[{std::move(prompt), seed}] = std::move(answer);
  }

  void propose(std::span<DraftQuery> queries) override {
    drafts_.assign(queries.size(), {});
    for (size_t i = 0; i < queries.size(); ++i) {
      const Request& r = *queries[i].request;
      const std::vector<TokenId> prompt(r.token_ids.begin(),
                                        r.token_ids.begin() + r.num_prompt_tokens);
      const auto known = answers_.find({prompt, r.params->seed.value_or(0)});
      guess(known == answers_.end() ? std::span<const TokenId>() : known->second,
            static_cast<size_t>(r.num_output_tokens()), queries[i].max_drafts, drafts_[i]);
      queries[i].token_ids = drafts_[i];
    }
  }
  void forget(RequestId) override {}

 protected:
  // Returns true `percent` times of 100.
  bool hits(int32_t percent) { return static_cast<int32_t>(rng_() % 100) < percent; }
  uint32_t random() { return static_cast<uint32_t>(rng_()); }

 private:
  // Adds at most `max_drafts` drafts of the answer's tokens from `place` on. `answer` is empty if
  // it was not taught.
  virtual void guess(std::span<const TokenId> answer, size_t place, int32_t max_drafts,
                     std::vector<TokenId>& drafts) = 0;

  std::mt19937 rng_;
  std::vector<std::vector<TokenId>> drafts_;
  std::map<std::pair<std::vector<TokenId>, uint64_t>, std::vector<TokenId>> answers_;
};

}  // namespace quire::test
