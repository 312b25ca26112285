#include "draft/ngram_drafter.h"

#include <algorithm>

#include "draft/match_source.h"

namespace quire {

void NgramDrafter::propose(std::span<DraftQuery> queries) {
  for (DraftQuery& query : queries) propose(query);
}

// A border of a prefix of the reversed text is a piece of the text that equals the text's end. The
// borders come from the failure function of Knuth, Morris and Pratt (1977), limited to
// prompt_lookup_max.
void NgramDrafter::propose(DraftQuery& query) {
  const std::span<const TokenId> text = query.request->token_ids;
  const size_t size = text.size();
  const auto max_length = static_cast<size_t>(options_.prompt_lookup_max);
  const auto reversed = [text, size](size_t i) { return text[size - 1 - i]; };
  borders_.assign(std::min(size, max_length + 1), 0);
  size_t best_length = 0;
  size_t best_end = 0;  // position in the text behind the piece that equals its end
  size_t length = 0;    // of the border of the reversed text's first i + 1 tokens
  for (size_t i = 1; i < size; ++i) {
    if (length == max_length) length = static_cast<size_t>(borders_[length - 1]);
    while (length > 0 && reversed(length) != reversed(i))
      length = static_cast<size_t>(borders_[length - 1]);
    if (reversed(length) == reversed(i)) ++length;
    if (i < borders_.size()) borders_[i] = static_cast<int32_t>(length);
    if (length < best_length || length == 0) continue;
    best_length = length;  // the last one of equals is the earliest in the text
    best_end = size - 1 - i + length;
  }
  if (best_length < static_cast<size_t>(options_.prompt_lookup_min)) return;
  query.token_ids = text.subspan(best_end).first(
      std::min(size - best_end, static_cast<size_t>(query.max_drafts)));
  set_match(query, static_cast<int32_t>(best_length));
}

}  // namespace quire
