// Drafts that say what will come out, and err as often as they are told to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draft/drafter.h"
#include "sim/replica/slot_table.h"

namespace quire::sim {

class SimDrafts final : public Drafter {
 public:
  // Borrows the slots. `acceptance`: of drafts behind right ones, the share that come out.
  SimDrafts(SlotTable& slots, double acceptance) : slots_(slots), acceptance_(acceptance) {}

  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId) override {}

 private:
  bool is_right(TokenId token_id, int32_t position) const;

  SlotTable& slots_;
  const double acceptance_;
  std::vector<std::vector<TokenId>> tokens_;
};

}  // namespace quire::sim
