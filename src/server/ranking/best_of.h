// best_of: of the choices of a prompt, those with the greatest mean log-probability of a token are
// the answer. They are known once all have ended.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/output/generation.h"

namespace quire::server {

class BestOf {
 public:
  BestOf(int32_t num_candidates, int32_t num_wanted);

  // Keeps the delta. After the last one of the last candidate it returns the answer, one delta for
  // each choice that is wanted, best first; before that it returns nothing. Every token must have
  // its log-probability.
  std::vector<OutputDelta> add(OutputDelta delta);
  // Of the candidates that are no part of the answer, once it is there.
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
