#pragma once

namespace quire::grammar {

// Blanks between the tokens of JSON text. Never before the first or after the last one.
enum class Whitespace {
  kBounded,  // per gap up to 8 blanks, or a newline and up to 64 blanks
  kCompact,  // none
};

}  // namespace quire::grammar
