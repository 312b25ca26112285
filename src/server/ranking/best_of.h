// BestOf implements best_of: of all choices of a prompt, those with the greatest mean
// log-probability per token are the answer. They are known once all choices have ended.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/output/generation.h"

namespace quire::server {

class BestOf {
 public:
  BestOf(int32_t num_candidates, int32_t num_wanted);

  // Stores the delta. After the last delta of the last candidate it returns the answer: one delta
  // for each wanted choice, the best first. Before that it returns nothing. Every token must have
  // its log-probability.
  std::vector<OutputDelta> add(OutputDelta delta);
  // Returns the tokens of candidates that are not in the answer, once the answer is known.
  int64_t num_other_tokens() const { return num_other_tokens_; }
  // Returns about how many bytes are held.
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  std::vector<OutputDelta> candidates_;
  size_t num_wanted_;
  size_t num_unfinished_;
  int64_t num_other_tokens_ = 0;
  uint64_t held_bytes_ = 0;
};

}  // namespace quire::server
