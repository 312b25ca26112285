// The parser sees the current token and the next one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/parse/lexer.h"
#include "chat/jinja/value/heap.h"

namespace quire::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& ahead() const {
    return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_];
  }
  // Returns the current token and moves past it.
  const Token& next() {
    const Token& token = current();
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }

  bool is(TokenType type) const { return current().type == type; }
  bool is_name(std::string_view name) const {
    return is(TokenType::kName) && current().text == name;
  }
  bool is_operator(std::string_view text) const {
    return is(TokenType::kOperator) && current().text == text;
  }

  bool skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    next();
    return true;
  }
  bool skip_operator(std::string_view text) {
    if (!is_operator(text)) return false;
    next();
    return true;
  }

  std::string expect_name() {
    if (!is(TokenType::kName)) unexpected("name");
    return next().text;
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) unexpected(name);
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) unexpected(text);
  }
  void expect(TokenType type) {
    if (!is(type)) unexpected(describe(Token{.type = type}));
    next();
  }

  [[noreturn]] void unexpected(std::string_view expected) const {
    if (is(TokenType::kEnd)) fail("unexpected end of template, expected '{}'", expected);
    fail("expected token '{}', got '{}'", expected, describe(current()));
  }

  static std::string describe(const Token& token) {
    switch (token.type) {
      case TokenType::kText:
        return "template data / text";
      case TokenType::kPrintBegin:
        return "begin of print statement";
      case TokenType::kPrintEnd:
        return "end of print statement";
      case TokenType::kTagBegin:
        return "begin of statement block";
      case TokenType::kTagEnd:
        return "end of statement block";
      case TokenType::kString:
        return "string";
      case TokenType::kInteger:
        return "integer";
      case TokenType::kFloat:
        return "float";
      case TokenType::kEnd:
        return "end of template";
      default:
        return token.text.substr(0, 64);
    }
  }

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

}  // namespace quire::jinja
