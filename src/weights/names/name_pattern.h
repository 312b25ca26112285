// A NamePattern matches names of modules, as configurations write them: the name itself, a part of
// it, or a regular expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// A pattern is immutable; any thread may use it, and copies share the compiled expression.
class NamePattern {
 public:
  static NamePattern exact(std::string text);
  static NamePattern part(std::string text);
  // Makes a pattern that matches at the start of a name, as Python's re.match does. Matching is
  // bounded: an expression that backtracks too often matches nothing. Returns kInvalidArgument if
  // the text is not a regular expression.
  static Result<NamePattern> regex(std::string text);

  bool matches(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  struct Compiled;
  enum class Kind : uint8_t { kExact, kPart, kRegex };
  NamePattern(Kind kind, std::string text) : kind_(kind), text_(std::move(text)) {}

  Kind kind_;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;  // shared because it cannot be copied
};

}  // namespace quire
