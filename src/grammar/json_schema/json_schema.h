// This file turns JSON Schema (drafts 4 to 2020-12) into grammar rules.
//
// Members of objects come in the order of `properties`, then required names that are not among
// them, then other names. Every text that the rules allow is valid. A keyword that the rules cannot
// express is never ignored: it is an error that names the keyword and its path. Unknown keywords
// and formats are annotations, as the specification says.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/rules/json_options.h"
#include "grammar/rules/rules.h"

namespace quire::grammar {

Result<RuleId> json_schema_rule(ExprStore& store, Rules& rules, std::string_view schema_text,
                                const JsonOptions& options);

}  // namespace quire::grammar
