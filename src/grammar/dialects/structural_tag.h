// A structural tag describes free text with marked places that follow grammars of their own. Quire
// reads both forms that XGrammar defines: {"structures", "triggers"} and {"format": {"type", …}}.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/rules/json_options.h"
#include "grammar/rules/rules.h"

namespace quire::grammar {

// Reads these formats: const_string, json_schema (style json), regex, grammar (EBNF), any_text,
// sequence, or, optional, plus, star, repeat, tag, triggered_tags, tags_with_separator. For other
// formats, and for members that a format does not have, returns an error that names their path.
// Where a text in the tag contains the text of a special token (`special_tokens`), only that token
// matches there.
Result<RuleId> structural_tag_rule(ExprStore& store, Rules& rules, std::string_view text,
                                   const JsonOptions& json,
                                   const std::vector<std::string>& special_tokens);

}  // namespace quire::grammar
