// An AnswerRule is what the whole text of an answer must follow: the schema or grammar of the
// request, or tool calls in the model's own dialect that the request requires.
#pragma once

#include <optional>
#include <string>

#include "core/structured_outputs.h"
#include "engine/output/reasoning_budget.h"
#include "server/openai/chunk_builder.h"
#include "server/openai/prepare.h"
#include "server/openai/request_fields.h"

namespace quire::server {

struct AnswerRule {
  StructuredOutputs outputs;
  // The rule covers the answer from its first token on and allows the model to reason first.
  bool covers_reasoning = false;
};

// Returns nullopt when any text is allowed. It must be called while `f` still holds its tools. It
// is an error when a call is required of a model without a known dialect. Tools with "strict": true
// whose calls cannot be forced to follow their schemas add to `warning`.
ApiResult<std::optional<AnswerRule>> answer_rule(const RequestFields& f,
                                                 const PrepareContext& context,
                                                 std::string& warning);

// Returns the rule for one prompt of the call, whose end shows whether the model begins by
// reasoning.
StructuredOutputs rule_of_prompt(const AnswerRule& rule, const ResponseShape& shape,
                                 const PrepareContext& context);

// Reads thinking_token_budget for one prompt of the call. nullopt: there is no budget. It is an
// error when the form of the model's reasoning is not known, because then a budget cannot be
// enforced.
ApiResult<std::optional<ReasoningBudget>> reasoning_budget(const RequestFields& f,
                                                           const ResponseShape& shape,
                                                           const PrepareContext& context);

}  // namespace quire::server
