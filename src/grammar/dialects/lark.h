// lark_rule() reads grammars in Lark's notation, as llguidance does.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/rules/json_options.h"
#include "grammar/rules/rules.h"

namespace quire::grammar {

// Reads rules (lower case), terminals (upper case), strings with the flag i, /regular expressions/
// with the flag i, ranges "a".."z", ( ), [ ], | * + ? {m,n} ~m..n, & and ~ of terminals, %ignore,
// %import common.NAME, %json {schema}, <special tokens> and comments. A match of %ignore may
// precede each terminal of a rule. A terminal may end wherever it can: there is no longest match.
// Returns an error with the line number for priorities, templates, attributes and anything else
// that is not read.
Result<RuleId> lark_rule(ExprStore& store, Rules& rules, std::string_view text,
                         const JsonOptions& json, const std::vector<std::string>& special_tokens);

}  // namespace quire::grammar
