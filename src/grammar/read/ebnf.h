// ebnf_rule() reads GBNF, the grammar notation of llama.cpp, with the additions of xgrammar's EBNF:
// `{m,n}`, names with `_ . -`, left recursion.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/rules/rules.h"

namespace quire::grammar {

// Returns the rule `root`. Errors name the line.
Result<RuleId> ebnf_rule(ExprStore& store, Rules& rules, std::string_view text);

}  // namespace quire::grammar
