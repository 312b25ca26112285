#include "engine/structured/budgeted_reasoning.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

BudgetedReasoning::BudgetedReasoning(std::shared_ptr<const ReasoningBudget> budget,
                                     const Tokenizer& tokenizer,
                                     std::unique_ptr<TokenMaskSource> answer)
    : budget_(std::move(budget)), tokenizer_(tokenizer), answer_(std::move(answer)) {
  for (const std::string& end : budget_->ends) longest_end_ = std::max(longest_end_, end.size());
  if (budget_->begins_inside) enter(progress_);
}

void BudgetedReasoning::enter(Progress& progress) const {
  progress.phase = budget_->max_tokens == 0 ? Phase::kForcing : Phase::kInside;
  progress.tail.clear();
}

// So far the text is whitespace, part of a mark, a mark, or an answer without reasoning.
void BudgetedReasoning::look_for_begin(Progress& progress) const {
  const size_t start = progress.tail.find_first_not_of(kBlanks);
  if (start == std::string::npos) return;
  const std::string_view text = std::string_view(progress.tail).substr(start);
  bool may_come = false;
  for (const std::string_view begin : budget_->begins) {
    if (text.starts_with(begin)) return enter(progress);
    may_come |= begin.starts_with(text);
  }
  if (!may_come) progress.phase = Phase::kOver;
}

void BudgetedReasoning::advance(Progress& progress, TokenId id) const {
  switch (progress.phase) {
    case Phase::kOver:
      return;
    case Phase::kForcing:
      ++progress.num_forced;
      if (progress.num_forced == budget_->forced_token_ids.size()) progress.phase = Phase::kOver;
      return;
    case Phase::kBefore:
      progress.tail += tokenizer_.token_bytes(id);
      return look_for_begin(progress);
    case Phase::kInside:
      break;
  }
  progress.tail += tokenizer_.token_bytes(id);
  for (const std::string& end : budget_->ends) {
    if (progress.tail.find(end) != std::string::npos) {
      progress.phase = Phase::kOver;
      return;
    }
  }
  if (progress.tail.size() > longest_end_) {
    progress.tail.erase(0, progress.tail.size() - longest_end_);
  }
  if (++progress.num_tokens >= budget_->max_tokens) progress.phase = Phase::kForcing;
}

std::optional<TokenId> BudgetedReasoning::end_token(const Progress& progress) const {
  if (progress.phase != Phase::kForcing) return std::nullopt;
  return budget_->forced_token_ids[progress.num_forced];
}

Status BudgetedReasoning::accept(std::span<const TokenId> token_ids) {
  for (const TokenId id : token_ids) advance(progress_, id);
  return answer_ == nullptr ? Status() : answer_->accept(token_ids);
}

bool BudgetedReasoning::ready() { return answer_ == nullptr || answer_->ready(); }

std::span<const TokenId> BudgetedReasoning::forced() const {
  return answer_ == nullptr ? std::span<const TokenId>() : answer_->forced();
}

Result<int32_t> BudgetedReasoning::count_allowed(std::span<const TokenId> drafts) {
  Progress progress = progress_;
  int32_t count = 0;
  for (const TokenId id : drafts) {
    const std::optional<TokenId> only = end_token(progress);
    if (only && *only != id) break;
    advance(progress, id);
    ++count;
  }
  if (answer_ == nullptr || count == 0) return count;
  return answer_->count_allowed(drafts.first(static_cast<size_t>(count)));
}

void BudgetedReasoning::begin(std::span<const TokenId> drafts) {
  if (answer_ != nullptr) answer_->begin(drafts);
}

Result<bool> BudgetedReasoning::fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) {
  bool is_masked = false;
  if (answer_ != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(is_masked, answer_->fill(drafts, masks));
  }
  const size_t num_words = masks.size() / (drafts.size() + 1);
  Progress progress = progress_;
  for (size_t row = 0; row <= drafts.size(); ++row) {
    if (row > 0) advance(progress, drafts[row - 1]);
    const std::optional<TokenId> only = end_token(progress);
    if (!only) continue;
    if (!is_masked) std::fill(masks.begin(), masks.end(), ~0u);
    is_masked = true;
    const auto words = masks.subspan(row * num_words, num_words);
    std::fill(words.begin(), words.end(), 0u);
    words[static_cast<size_t>(*only) / 32] |= 1u << (*only % 32);
  }
  return is_masked;
}

}  // namespace quire
