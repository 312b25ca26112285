// NgramDrafter drafts from the request's own text: the tokens that followed an earlier occurrence of
// its last tokens. The rule is that of vLLM's method "ngram" (prompt lookup decoding).
#pragma once

#include <cstdint>
#include <vector>

#include "draft/drafter.h"

namespace quire {

class NgramDrafter final : public Drafter {
 public:
  struct Options {
    int32_t prompt_lookup_min = 5;  // tokens, >= 1
    int32_t prompt_lookup_max = 5;  // tokens, >= prompt_lookup_min
  };
  explicit NgramDrafter(const Options& options) : options_(options) {}

  // Takes the longest end of the text, of prompt_lookup_min to prompt_lookup_max tokens, that
  // occurred before, and proposes the tokens behind its earliest occurrence. The time is linear in
  // the requests' lengths.
  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId) override {}

 private:
  void propose(DraftQuery& query);

  const Options options_;
  std::vector<int32_t> borders_;  // of the reversed text, by the lengths of its prefixes
};

}  // namespace quire
