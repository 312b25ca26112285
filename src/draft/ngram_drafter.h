// Drafts from the request's own text: what followed its last few tokens when they stood there
// before. The rule is vLLM's method "ngram" (prompt lookup decoding).
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

  // Finds the earliest place where the longest end of the text, of prompt_lookup_min to
  // prompt_lookup_max tokens, stood before, and proposes the tokens behind it. It takes time linear
  // in the requests' lengths.
  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId) override {}

 private:
  void propose(DraftQuery& query);

  const Options options_;
  std::vector<int32_t> borders_;  // of the reversed text, by its prefixes' lengths
};

}  // namespace quire
