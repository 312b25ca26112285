// Structural tags: free text with marked places that follow grammars of their own, as XGrammar
// defines them ({"structures", "triggers"} and {"format": {"type", …}}).
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/rules/json_options.h"
#include "grammar/rules/rules.h"

namespace quire::grammar {

// Formats: const_string, json_schema (style json), regex, grammar (EBNF), any_text, sequence, or,
// optional, plus, star, repeat, tag, triggered_tags, tags_with_separator. Others, and members that
// a format does not have, are errors that name their path. Where a text that the tag names holds
// the text of a special token (`special_tokens`), that token alone writes it.
Result<RuleId> structural_tag_rule(ExprStore& store, Rules& rules, std::string_view text,
                                   const JsonOptions& json,
                                   const std::vector<std::string>& special_tokens);

}  // namespace quire::grammar
