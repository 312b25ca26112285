#include "sim/replica/sim_drafts.h"

#include <algorithm>

#include "base/check.h"
#include "sim/workload/token_content.h"

namespace quire::sim {

SimDrafts::SimDrafts(SlotTable& slots, double acceptance, const RowTimes& step_times)
    : slots_(slots), acceptance_(acceptance) {
  if (step_times.known()) {
    cost_ = DraftingCost{.step_times = step_times, .draft_class = {.prior = acceptance}};
  }
}

void SimDrafts::propose(std::span<DraftQuery> queries) {
  tokens_.resize(std::max(tokens_.size(), queries.size()));
  for (size_t i = 0; i < queries.size(); ++i) {
    const Slot* slot = slots_.find(queries[i].request->id);
    QUIRE_CHECK(slot != nullptr, "request {} drafts after its end", queries[i].request->id.value);
    tokens_[i].clear();
    for (int32_t k = 0; k < queries[i].max_drafts; ++k) {
      const int32_t position = queries[i].request->num_tokens() + k;
      const TokenId right = slots_.output_token(*slot, position);
      tokens_[i].push_back(is_right(right, position) ? right : right ^ 1);
    }
    queries[i].token_ids = tokens_[i];
    queries[i].draft_class.prior = acceptance_;
  }
}

// The same draft at the same position always gets the same answer.
bool SimDrafts::is_right(TokenId token_id, int32_t position) const {
  const uint64_t drawn =
      stream_id(static_cast<uint64_t>(token_id), static_cast<uint64_t>(position));
  return static_cast<double>(drawn >> 11) * 0x1p-53 < acceptance_;
}

}  // namespace quire::sim
