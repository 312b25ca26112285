// The regular expressions in tokenizer files are written for Oniguruma (Ruby syntax). They are
// translated to PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Translates Oniguruma (Ruby) syntax to PCRE2 (UTF, UCP, multi-line): white space and word classes
// with Unicode's meaning, \h as a hex digit, \uXXXX, (?m) as dot-all. Returns an error for
// constructs that PCRE2 has no counterpart for.
Result<std::string> translate_regex(std::string_view pattern);

// A Regex is a compiled pattern, shared by its copies. It is thread-safe.
class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  const std::string& pattern() const;
  // Returns the smallest number of characters that a match can have.
  size_t min_match_chars() const;

 private:
  friend class RegexMatcher;
  struct Code;
  std::shared_ptr<const Code> code_;  // shared: copies of a component use one compiled program
};

// A RegexMatcher finds matches of one pattern, with its own work memory. One thread uses it; it is
// cheap to make one for each call.
class RegexMatcher {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };
  explicit RegexMatcher(const Regex& regex);
  ~RegexMatcher();
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;

  // Returns the first match that starts at byte `from` or later. `text` must be valid UTF-8, and
  // `from` the start of a character. A search that exceeds the step limit finds nothing.
  std::optional<Match> find(std::string_view text, size_t from);

 private:
  struct Workspace;
  std::shared_ptr<const Regex::Code> code_;  // keeps the program alive while matching
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace quire
