#include "engine/structured/structured_output_service.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/structured/budgeted_reasoning.h"
#include "engine/structured/grammar_masks.h"

namespace quire {
namespace {

using grammar::GrammarKind;

GrammarKind kind_of(const StructuredOutputs& rule) {
  switch (rule.kind) {
    case StructuredOutputKind::kJson:
      return GrammarKind::kJsonSchema;
    case StructuredOutputKind::kJsonObject:
      return GrammarKind::kJsonObject;
    case StructuredOutputKind::kRegex:
      return GrammarKind::kRegex;
    case StructuredOutputKind::kChoice:
      return GrammarKind::kChoice;
    case StructuredOutputKind::kStructuralTag:
      return GrammarKind::kStructuralTag;
    case StructuredOutputKind::kGrammar:
      break;
  }
  return rule.text.find("::=") == std::string::npos ? GrammarKind::kLark : GrammarKind::kEbnf;
}

grammar::GrammarSource source_of(StructuredOutputs& rule) {
  grammar::GrammarSource source;
  source.kind = kind_of(rule);
  source.text = std::move(rule.text);
  source.choices = std::move(rule.choices);
  source.json.closes_objects = rule.disable_additional_properties;
  source.json.any_order = rule.any_order;
  if (rule.disable_any_whitespace) {
    source.json.whitespace = grammar::Whitespace::kCompact;
  } else if (rule.whitespace_pattern) {
    source.json.whitespace = grammar::Whitespace::kPattern;
    source.json.whitespace_pattern = *rule.whitespace_pattern;
  }
  return source;
}

}  // namespace

StructuredOutputService::StructuredOutputService(std::shared_ptr<const Tokenizer> tokenizer,
                                                 int32_t vocab_size,
                                                 const StructuredOutputOptions& options)
    : tokenizer_(std::move(tokenizer)), vocab_size_(vocab_size), options_(options) {}

std::shared_ptr<StructuredOutputService::Threads> StructuredOutputService::threads() {
  const std::lock_guard lock(mutex_);
  if (threads_ == nullptr) {
    const auto make_vocabulary = [tokenizer = tokenizer_, vocab_size = vocab_size_] {
      return std::make_unique<grammar::Vocabulary>(*tokenizer, std::vector<TokenId>(), vocab_size);
    };
    threads_.reset(new Threads{CompiledGrammars(make_vocabulary, options_.grammars),
                               MaskWorkers(options_.num_mask_threads)});
  }
  return threads_;
}

Status StructuredOutputService::constrain(GenerationRequest& request) {
  QUIRE_RETURN_IF_ERROR(constrain_text(request));
  return constrain_reasoning(request);
}

Status StructuredOutputService::constrain_reasoning(GenerationRequest& request) const {
  if (!request.reasoning_budget) return {};
  const auto budget = std::make_shared<const ReasoningBudget>(std::move(*request.reasoning_budget));
  request.reasoning_budget.reset();
  const auto is_unknown = [&](TokenId id) { return id < 0 || id >= vocab_size_; };
  if (tokenizer_ == nullptr || budget->max_tokens < 0 || budget->ends.empty() ||
      budget->forced_token_ids.empty() ||
      std::any_of(budget->forced_token_ids.begin(), budget->forced_token_ids.end(), is_unknown)) {
    return invalid_argument(
        "reasoning_budget: expected max_tokens >= 0 and tokens of the model's vocabulary that end "
        "the reasoning, in an engine with a tokenizer");
  }
  request.make_mask_source = [this, budget, answer = std::move(request.make_mask_source)] {
    return std::make_unique<BudgetedReasoning>(budget, *tokenizer_, answer ? answer() : nullptr);
  };
  return {};
}

Status StructuredOutputService::constrain_text(GenerationRequest& request) {
  SamplingParams& params = request.params;
  if (!request.structured_outputs) return {};
  StructuredOutputs rule = std::move(*request.structured_outputs);
  request.structured_outputs.reset();
  if (tokenizer_ == nullptr) {
    return invalid_argument("{}: expected none, since this engine has no tokenizer", rule.field);
  }
  if (params.eos_token_ids.empty()) {
    return invalid_argument("{}: expected none, since the model has no end-of-sequence token",
                            rule.field);
  }
  // A grammar decides by itself when its text may end.
  params.min_tokens = 0;
  const auto threads = this->threads();
  std::vector<TokenId> text_eos_token_ids;
  std::copy_if(params.eos_token_ids.begin(), params.eos_token_ids.end(),
               std::back_inserter(text_eos_token_ids),
               [&](TokenId id) { return !tokenizer_->is_special(id); });
  GrammarMasksOptions options{.eos_token_ids = params.eos_token_ids,
                              .text_eos_token_ids = std::move(text_eos_token_ids),
                              .begins_after = std::move(rule.begins_after),
                              .field = std::move(rule.field),
                              .max_forced_bytes = options_.max_forced_bytes};
  QUIRE_ASSIGN_OR_RETURN(const auto ticket,
                         threads->grammars.get(source_of(rule), request.cache_keys.salt));
  request.make_mask_source = [this, threads, ticket, options] {
    return std::make_unique<GrammarMasks>(ticket, *tokenizer_, threads->workers, options);
  };
  return {};
}

CompiledGrammars::Counts StructuredOutputService::counts() const {
  const std::lock_guard lock(mutex_);
  return threads_ == nullptr ? CompiledGrammars::Counts() : threads_->grammars.counts();
}

}  // namespace quire
