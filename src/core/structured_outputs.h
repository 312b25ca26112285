// The rule that the whole text of an answer must follow; a request has at most one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quire {

enum class StructuredOutputKind : uint8_t {
  kJson,           // text: a JSON Schema
  kJsonObject,     // any JSON object
  kRegex,          // text: a regular expression that the whole answer matches
  kChoice,         // choices: the answer is one of them
  kGrammar,        // text: EBNF (GBNF) or Lark
  kStructuralTag,  // text: a structural tag, as JSON
};

struct StructuredOutputs {
  StructuredOutputKind kind = StructuredOutputKind::kJsonObject;
  std::string text{};
  std::vector<std::string> choices{};
  // Name of the request's field that holds the rule, for error texts:
  // "response_format.json_schema.schema".
  std::string field = "structured_outputs";

  // If true, JSON has no whitespace between tokens. If false, `whitespace_pattern` is the regular
  // expression of the whitespace that is allowed there.
  bool disable_any_whitespace = false;
  std::optional<std::string> whitespace_pattern{};
  // Objects may have only the members that their schema names.
  bool disable_additional_properties = false;
  // The members of an object may come in any order (up to 10 named ones) instead of the schema's.
  bool any_order = false;

  // The rule holds only after this text, which ends the model's reasoning. If empty, it holds from
  // the first token of the answer.
  std::string begins_after{};
};

}  // namespace quire
