#include "engine/choices/choice_drafts.h"

#include <algorithm>

namespace quire {

// Answers the queries of requests with forced tokens, and passes the others to the drafter.
void ChoiceDrafts::propose_forced(std::span<DraftQuery> queries) {
  open_queries_.clear();
  for (DraftQuery& query : queries) {
    const std::span<const TokenId> forced = masks_.forced(query.request->id);
    query.token_ids = forced.first(std::min(forced.size(), static_cast<size_t>(query.max_drafts)));
    query.draft_class = {.source = kForcedSource, .prior = 0.9};
    if (forced.empty()) {
      query.draft_class = {};
      open_queries_.push_back(query);
    }
  }
  drafter_->propose(open_queries_);
  auto answered = open_queries_.begin();
  for (DraftQuery& query : queries) {
    if (query.draft_class.source != kForcedSource) query = *answered++;
  }
}

void ChoiceDrafts::propose(std::span<DraftQuery> queries) {
  if (cost() == nullptr) {
    propose_forced(queries);
  } else {
    drafter_->propose(queries);
  }
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
