// What the whole text of an answer must be: at most one such rule per request.
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
  // Of the field that brought the rule, for errors: "response_format.json_schema.schema".
  std::string field = "structured_outputs";

  // In JSON text there are no blanks between tokens. Without it, `whitespace_pattern` says as a
  // regular expression what may stand there.
  bool disable_any_whitespace = false;
  std::optional<std::string> whitespace_pattern{};
  // Objects have no members but those that their schema names.
  bool disable_additional_properties = false;
  // Members of objects come in any order (up to 10 named ones), not in that of the schema.
  bool any_order = false;

  // The rule holds from behind this text on, where the model ends its reasoning. When it is empty,
  // the rule holds from the answer's first token on.
  std::string begins_after{};
};

}  // namespace quire
