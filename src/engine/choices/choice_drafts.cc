#include "engine/choices/choice_drafts.h"

#include <algorithm>

namespace quire {

std::span<const TokenId> ChoiceDrafts::propose(const Request& request, int32_t max_drafts) {
  const std::span<const TokenId> drafts = drafter_->propose(request, max_drafts);
  const auto stranger = std::find_if(drafts.begin(), drafts.end(),
                                     [this](TokenId id) { return id < 0 || id >= vocab_size_; });
  const auto num_tokens = static_cast<size_t>(stranger - drafts.begin());
  return drafts.first(masks_.count_allowed(request.id, drafts.first(num_tokens)));
}

}  // namespace quire
