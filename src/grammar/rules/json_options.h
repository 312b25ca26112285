// How JSON text may look, whatever kind of grammar asks for it.
#pragma once

#include <string>

namespace quire::grammar {

// Blanks between the tokens of JSON text. Never before the first or after the last one.
enum class Whitespace {
  kBounded,  // per gap up to 8 blanks, or a newline and up to 64 blanks
  kCompact,  // none
  kPattern,  // what JsonOptions::whitespace_pattern matches
};

struct JsonOptions {
  Whitespace whitespace = Whitespace::kBounded;
  std::string whitespace_pattern{};  // a regular expression of blanks
  // A schema with `properties` that says nothing of other names allows no others.
  bool closes_objects = false;
  // Members come in any order; objects of more than 63 named ones keep the schema's.
  bool any_order = false;
};

}  // namespace quire::grammar
