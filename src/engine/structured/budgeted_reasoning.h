// The masks of one choice whose reasoning has a greatest length (output/token_mask_source.h): when
// it is reached, the tokens that end the reasoning are the only ones that may come.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/output/reasoning_budget.h"
#include "engine/output/token_mask_source.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// It is used on the engine thread only.
class BudgetedReasoning final : public TokenMaskSource {
 public:
  // `tokenizer` must outlive the source. `answer` says what may come where no token is forced, and
  // hears of all tokens; null allows every token.
  BudgetedReasoning(std::shared_ptr<const ReasoningBudget> budget, const Tokenizer& tokenizer,
                    std::unique_ptr<TokenMaskSource> answer);

  Status accept(std::span<const TokenId> token_ids) override;
  bool ready() override;
  // What the answer must go on with; the end of reasoning is a few tokens alone.
  std::span<const TokenId> forced() const override;
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override;
  void begin(std::span<const TokenId> drafts) override;
  Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) override;

 private:
  enum class Phase : uint8_t { kBefore, kInside, kForcing, kOver };
  // How far the choice has come.
  struct Progress {
    Phase phase = Phase::kBefore;
    int32_t num_tokens = 0;  // of reasoning
    size_t num_forced = 0;   // of forced_token_ids
    std::string tail;        // the text so far, or as much of it as may be a part of a mark
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
