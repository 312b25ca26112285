// What the whole text of an answer must be: the schema or grammar that a request brings, or tool
// calls in the model's own dialect that must come.
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
  // The rule holds from the answer's first token on and allows the model to reason before.
  bool covers_reasoning = false;
};

// Nothing: any text is an answer. Call it while `f` still holds its tools. A call that must come of
// a model without a known dialect is an error; tools with "strict": true whose calls cannot be held
// to their schemas add to `warning`.
ApiResult<std::optional<AnswerRule>> answer_rule(const RequestFields& f,
                                                 const PrepareContext& context,
                                                 std::string& warning);

// The same for one prompt of the call, whose end tells whether the model begins by reasoning.
StructuredOutputs rule_of_prompt(const AnswerRule& rule, const ResponseShape& shape,
                                 const PrepareContext& context);

// thinking_token_budget, for one prompt of the call. Nothing: the model reasons as long as it wants.
// A model whose replies have no known reasoning cannot be held to a budget: an error.
ApiResult<std::optional<ReasoningBudget>> reasoning_budget(const RequestFields& f,
                                                           const ResponseShape& shape,
                                                           const PrepareContext& context);

}  // namespace quire::server
