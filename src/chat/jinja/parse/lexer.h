// tokenize() splits a template into text and tags. It applies the white-space rules of trim_blocks
// and lstrip_blocks (both on, as in the Hugging Face environment) and of the - and + marks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::jinja {

enum class TokenType : uint8_t {
  kText,
  kPrintBegin,
  kPrintEnd,
  kTagBegin,
  kTagEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text = {};  // the text, name, operator, or the contents of a string
  int64_t integer = 0;
  double real = 0;
};

// Throws an Error with a line. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace quire::jinja
