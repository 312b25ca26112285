// The masks of one choice with a limit on its reasoning (output/token_mask_source.h): when the
// limit is reached, only the tokens that end the reasoning are allowed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/output/reasoning_budget.h"
#include "engine/output/token_mask_source.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// Used by the engine thread only.
class BudgetedReasoning final : public TokenMaskSource {
 public:
  // `tokenizer` must outlive the source. `answer` makes the masks where no token is forced, and
  // gets all tokens; null: every token is allowed.
  BudgetedReasoning(std::shared_ptr<const ReasoningBudget> budget, const Tokenizer& tokenizer,
                    std::unique_ptr<TokenMaskSource> answer);

  Status accept(std::span<const TokenId> token_ids) override;
  bool ready() override;
  // Returns the forced tokens of `answer`. The tokens that end the reasoning are not drafted, since
  // they are few.
  std::span<const TokenId> forced() const override;
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override;
  void begin(std::span<const TokenId> drafts) override;
  Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) override;

 private:
  enum class Phase : uint8_t { kBefore, kInside, kForcing, kOver };
  // The state of the choice's reasoning.
  struct Progress {
    Phase phase = Phase::kBefore;
    int32_t num_tokens = 0;  // of reasoning
    size_t num_forced = 0;   // of forced_token_ids
    std::string tail;        // the end of the text, as far as it may be part of a mark
  };

  void advance(Progress& progress, TokenId id) const;
  void look_for_begin(Progress& progress) const;
  void enter(Progress& progress) const;
  std::optional<TokenId> end_token(const Progress& progress) const;

  const std::shared_ptr<const ReasoningBudget> budget_;
  const Tokenizer& tokenizer_;
  const std::unique_ptr<TokenMaskSource> answer_;
  size_t longest_end_ = 0;
  Progress progress_;
};

}  // namespace quire
