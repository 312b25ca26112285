// tool_grammar() describes the outputs whose tool calls are valid: the dialect's own markers around
// arguments that follow each tool's JSON Schema, as a structural tag.
//
//   QUIRE_ASSIGN_OR_RETURN(const boost::json::object tag,
//                          tool_grammar(*format.dialect, tools, {.at_least_one = true}));
//
// For a tool_choice that names a tool, pass `at_least_one` and a list of that tool alone, with
// parallel_tool_calls off.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/result.h"
#include "chat/dialects/dialect.h"

namespace quire {

struct ToolGrammarOptions {
  bool at_least_one = false;        // tool_choice "required"; otherwise free text may stand around
  bool parallel_tool_calls = true;  // otherwise the output ends after the first call
};

// Returns {"type": "structural_tag", "format": {…}} in the form of XGrammar's new structural tags,
// with these parts: const_string, json_schema, regex, grammar (EBNF), any_text with excludes,
// sequence, or, optional, star, tag, triggered_tags and tags_with_separator. `tools` are those of a
// request: {"type": "function", "function": {"name", "parameters", "strict"}}. With "strict": false
// any JSON object may be the arguments. Markers are written as text; one that is a token of the
// vocabulary must be read as that token alone. The format begins where the reasoning has ended.
// kInvalidArgument: a tool has no name of the form [A-Za-z0-9_.-]{1,64}, or its parameters are no
// object.
Result<boost::json::object> tool_grammar(const Dialect& dialect, const boost::json::array& tools,
                                         const ToolGrammarOptions& options = {});

}  // namespace quire
