// ChoiceDrafts is the drafter that the engine's scheduler asks. It proposes no draft that could not
// come out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "draft/drafter.h"
#include "engine/choices/choice_masks.h"

namespace quire {

// It is used on the engine thread only.
class ChoiceDrafts final : public Drafter {
 public:
  // `drafter` may be null: there are no drafts then. Borrows `masks`.
  ChoiceDrafts(std::shared_ptr<Drafter> drafter, ChoiceMasks& masks, int32_t vocab_size)
      : drafter_(std::move(drafter)), masks_(masks), vocab_size_(vocab_size) {}

  // Proposes what a request's masks force it to write before its drafter's guesses, where guesses
  // cost nothing. Drafts end before the first that is no token of the model or that the masks
  // forbid.
  void propose(std::span<DraftQuery> queries) override;
  void forget(RequestId id) override { drafter_->forget(id); }
  const DraftingCost* cost() const override { return drafter_->cost(); }

  Drafter* or_null() { return drafter_ == nullptr ? nullptr : this; }

 private:
  static constexpr DraftSource kForcedSource = kMaxDraftSources - 1;

  void propose_forced(std::span<DraftQuery> queries);

  const std::shared_ptr<Drafter>
      drafter_;  // of this engine alone, made by whoever made its options
  ChoiceMasks& masks_;
  const int32_t vocab_size_;
  std::vector<DraftQuery> open_queries_;  // those that nothing is forced on
};

}  // namespace quire
