// SimDrafts proposes the tokens that will be sampled, with errors at a chosen rate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "draft/drafter.h"
#include "sim/replica/slot_table.h"

namespace quire::sim {

class SimDrafts final : public Drafter {
 public:
  // Borrows the slots. `acceptance` is the probability that a draft is accepted if those before it
  // are. `step_times` are the step times of a drafting model; they are unknown without one.
  SimDrafts(SlotTable& slots, double acceptance, const RowTimes& step_times);

  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId) override {}
  const DraftingCost* cost() const override { return cost_ ? &*cost_ : nullptr; }

 private:
  bool is_right(TokenId token_id, int32_t position) const;

  SlotTable& slots_;
  const double acceptance_;
  std::optional<DraftingCost> cost_;
  std::vector<std::vector<TokenId>> tokens_;
};

}  // namespace quire::sim
