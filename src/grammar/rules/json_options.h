// JsonOptions say which spellings of JSON text are allowed, for all kinds of grammars.
#pragma once

#include <string>

namespace quire::grammar {

// The blanks that are allowed between the tokens of JSON text. None are allowed before the first
// token or after the last one.
enum class Whitespace {
  kBounded,  // per gap up to 8 blanks, or a newline and up to 64 blanks
  kCompact,  // none
  kPattern,  // what JsonOptions::whitespace_pattern matches
};

struct JsonOptions {
  Whitespace whitespace = Whitespace::kBounded;
  std::string whitespace_pattern{};  // a regular expression of blanks
  // Whether a schema with `properties` that says nothing about other names allows none.
  bool closes_objects = false;
  // Whether members may come in any order. Objects of more than 63 named members keep the schema's
  // order.
  bool any_order = false;
};

}  // namespace quire::grammar
