// regex_expr() turns ECMA-262 regular expressions (flag u, with Annex B's leniency) into byte
// expressions.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/rules/encoding.h"

namespace quire::grammar {

enum class RegexMatch {
  kSearch,  // a match anywhere in the text, as JSON Schema's `pattern`
  kFull,    // the whole text
};

struct RegexOptions {
  RegexMatch match = RegexMatch::kFull;
  bool ignore_case = false;  // for ASCII letters only
};

// Returns an expression for the texts that `pattern` matches, in the encoder's form. Look-ahead is
// supported if the rest of its sequence reaches the end of the pattern. For a construct that is not
// regular or not supported (back references, look-behind, \b, anchors inside a repetition), returns
// an error that names it and its position.
Result<ExprId> regex_expr(Encoder& encoder, std::string_view pattern,
                          const RegexOptions& options = {});

}  // namespace quire::grammar
