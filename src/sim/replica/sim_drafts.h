// Drafts that say what will come out, and err as often as they are told to.
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
  // Borrows the slots. Of drafts behind right ones, `acceptance` is the share that come out.
  // `step_times` are those of a model that drafts; without one they are unknown.
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
