#include "server/openai/answer_rule.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>
#include <variant>

#include "chat/tool_grammar.h"

namespace quire::server {
namespace {

namespace json = boost::json;

bool is_strict(const json::value& tool) {
  const auto* const strict = tool.at("function").as_object().if_contains("strict");
  return strict != nullptr && strict->is_bool() && strict->get_bool();
}

bool must_call(const RequestFields& f) {
  return f.tool_choice == ToolChoice::kRequired || f.tool_choice == ToolChoice::kNamed;
}

// Returns whether the calls of strict tools must follow their schemas although no call is required.
// A request with a rule for its text gets no rule for its calls.
bool may_call_strictly(const RequestFields& f) {
  return f.tool_choice != ToolChoice::kNone && !f.response_format && !f.structured_outputs &&
         std::any_of(f.tools.begin(), f.tools.end(), is_strict);
}

// Returns the tools that the answer may call. When no call is required, only strict tools have to
// follow their schemas.
json::array callable_tools(const RequestFields& f) {
  json::array tools;
  for (const json::value& tool : f.tools) {
    const std::string_view name = tool.at("function").at("name").as_string();
    if (f.tool_choice == ToolChoice::kNamed && name != f.tool_choice_name) continue;
    tools.push_back(tool);
    if (!must_call(f) && !is_strict(tool)) {
      tools.back().at("function").as_object()["strict"] = false;
    }
  }
  return tools;
}

ApiResult<std::optional<AnswerRule>> calls_of_dialect(const RequestFields& f,
                                                      const Dialect& dialect) {
  const bool is_harmony = std::holds_alternative<HarmonyStyle>(dialect.style);
  const ToolGrammarOptions options{.at_least_one = must_call(f),
                                   .parallel_tool_calls = f.tool_choice != ToolChoice::kNamed &&
                                                          f.parallel_tool_calls.value_or(true)};
  const Result<json::object> grammar = tool_grammar(dialect, callable_tools(f), options);
  if (!grammar.ok()) return from_status(grammar.status());
  AnswerRule rule{.outputs = {.kind = StructuredOutputKind::kStructuralTag,
                              .text = json::serialize(*grammar),
                              .field = "tools"},
                  .covers_reasoning = is_harmony};
  return std::optional(std::move(rule));
}

ApiResult<std::optional<AnswerRule>> rule_of_calls(const RequestFields& f,
                                                   const PrepareContext& context,
                                                   std::string& warning) {
  const Dialect* const dialect = context.options.reply_format.dialect;
  if (must_call(f)) {
    if (dialect == nullptr) {
      return field_error("tool_choice",
                         "expected \"auto\" or \"none\": the model's chat template tells no known "
                         "format of tool calls (--tool-call-parser)");
    }
    return calls_of_dialect(f, *dialect);
  }
  // The grammar for optional calls has no channels, but every reply of gpt-oss has channels.
  const bool has_grammar = dialect != nullptr && !dialect->layout.call_begin.empty() &&
                           !std::holds_alternative<HarmonyStyle>(dialect->style);
  if (!has_grammar) {
    add_warning("tools: \"strict\" has no effect with this model unless tool_choice asks for calls",
                warning);
    return std::optional<AnswerRule>();
  }
  return calls_of_dialect(f, *dialect);
}

// Returns the mark after which the answer of a reasoning model begins; empty: the reply begins with
// its answer.
std::string end_of_reasoning(const ResponseShape& shape, const PrepareContext& context) {
  if (shape.endpoint != Endpoint::kChat || shape.reply.syntax == nullptr) return {};
  if (shape.reply.syntax->is_harmony()) return "<|channel|>final<|message|>";
  const ReasoningStyle* const style = context.options.reply_format.reasoning;
  const bool has_ended = !shape.reply.starts_in_reasoning.value_or(true);
  return style == nullptr || has_ended ? std::string() : style->ends.front();
}

}  // namespace

ApiResult<std::optional<AnswerRule>> answer_rule(const RequestFields& f,
                                                 const PrepareContext& context,
                                                 std::string& warning) {
  if (must_call(f) && f.structured_outputs) {
    return field_error("structured_outputs",
                       "expected none beside a tool_choice that asks for calls");
  }
  // A required call has no content, so response_format does not apply to it.
  if (must_call(f) || may_call_strictly(f)) return rule_of_calls(f, context, warning);
  const auto& asked = f.response_format ? f.response_format : f.structured_outputs;
  if (!asked) return std::optional<AnswerRule>();
  AnswerRule rule{.outputs = *asked,
                  .covers_reasoning = context.options.structured_outputs.enable_in_reasoning};
  const StructuredOutputsConfig& config = context.options.structured_outputs;
  rule.outputs.disable_any_whitespace |=
      config.disable_any_whitespace && !rule.outputs.whitespace_pattern;
  rule.outputs.disable_additional_properties |= config.disable_additional_properties;
  return std::optional(std::move(rule));
}

ApiResult<std::optional<ReasoningBudget>> reasoning_budget(const RequestFields& f,
                                                           const ResponseShape& shape,
                                                           const PrepareContext& context) {
  if (f.thinking_token_budget.value_or(-1) < 0) return std::optional<ReasoningBudget>();
  const ReasoningStyle* const style = context.options.reply_format.reasoning;
  const bool is_harmony = shape.reply.syntax != nullptr && shape.reply.syntax->is_harmony();
  if (!is_harmony && (style == nullptr || style->ends.empty())) {
    return field_error("thinking_token_budget",
                       "expected none: the model's chat template tells no reasoning "
                       "(--reasoning-parser)");
  }
  ReasoningBudget budget{.max_tokens = static_cast<int32_t>(*f.thinking_token_budget)};
  std::string end;
  if (is_harmony) {
    const HarmonyStyle marks;
    budget.begins = {marks.channel + "analysis" + marks.message};
    budget.ends = {marks.end};
    end = marks.end + marks.start + "assistant" + marks.channel + "final" + marks.message;
  } else {
    const std::optional<bool> starts_inside = shape.reply.starts_in_reasoning;
    if (starts_inside == false) return std::optional<ReasoningBudget>();  // the reasoning has ended
    budget.begins_inside = starts_inside.value_or(style->opened_by_template);
    budget.begins = style->begins;
    budget.ends = style->ends;
    end = style->ends.front();
  }
  Result<std::vector<TokenId>> ids = context.model.codec->encode(end, false);
  if (!ids.ok()) return from_status(ids.status());
  budget.forced_token_ids = std::move(ids).value();
  return std::optional(std::move(budget));
}

StructuredOutputs rule_of_prompt(const AnswerRule& rule, const ResponseShape& shape,
                                 const PrepareContext& context) {
  StructuredOutputs outputs = rule.outputs;
  if (!rule.covers_reasoning) outputs.begins_after = end_of_reasoning(shape, context);
  return outputs;
}

}  // namespace quire::server
