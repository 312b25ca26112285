#include "engine/choices/choice_drafts.h"

#include <algorithm>

namespace quire {

void ChoiceDrafts::propose(std::span<DraftQuery> queries) {
  drafter_->propose(queries);
  for (DraftQuery& query : queries) {
    const std::span<const TokenId> drafts = query.token_ids;
    const auto stranger = std::find_if(drafts.begin(), drafts.end(),
                                       [this](TokenId id) { return id < 0 || id >= vocab_size_; });
    const auto num_tokens = static_cast<size_t>(stranger - drafts.begin());
    query.token_ids =
        drafts.first(masks_.count_allowed(query.request->id, drafts.first(num_tokens)));
  }
}

}  // namespace quire
