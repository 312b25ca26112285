// ChoiceDrafts is the drafter that the engine's scheduler uses. It proposes no draft that cannot be
// accepted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "draft/drafter.h"
#include "engine/choices/choice_masks.h"

namespace quire {

// Used by the engine thread only.
class ChoiceDrafts final : public Drafter {
 public:
  // `drafter` may be null: then there are no drafts. Borrows `masks`.
  ChoiceDrafts(std::shared_ptr<Drafter> drafter, ChoiceMasks& masks, int32_t vocab_size)
      : drafter_(std::move(drafter)), masks_(masks), vocab_size_(vocab_size) {}

  // Proposes the tokens that a request's masks force first, and then, if they cost nothing, its
  // drafter's guesses. Drafts end before the first one that is no token of the model or that the
  // masks forbid.
  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId id) override { drafter_->forget(id); }
  const DraftingCost* cost() const override { return drafter_->cost(); }

  Drafter* or_null() { return drafter_ == nullptr ? nullptr : this; }

 private:
  static constexpr DraftSource kForcedSource = kMaxDraftSources - 1;

  void propose_forced(std::span<DraftQuery> queries);

  const std::shared_ptr<Drafter> drafter_;  // of this engine alone; made with its options
  ChoiceMasks& masks_;
  const int32_t vocab_size_;
  std::vector<DraftQuery> open_queries_;  // those without forced tokens
};

}  // namespace quire
