// PythonScanner turns Python literals into JSON while they arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// It reads None, True, False and their JSON names, numbers, strings with either quote, lists,
// tuples, and dicts with string keys. It takes bytes as JsonScanner does; the output is always the
// beginning of a valid JSON value.
class PythonScanner {
 public:
  enum class State : uint8_t { kOpen, kDone, kFailed };

  // Takes bytes from the front until the literal is complete or wrong, and returns how many. A
  // number or word is complete when a byte has come that does not belong to it, or at end().
  size_t feed(std::string_view text, std::string& out);
  void end(std::string& out);
  State state() const { return state_; }

 private:
  enum class Expect : uint8_t {
    kValue,
    kFirst,  // after an opening bracket
    kItem,   // after ',': a value or the closing bracket
    kColon,
    kSeparator,
    kString,
    kEscape,
    kCode,  // hexadecimal digits of \x, \u, \U
    kWord,
  };
  static constexpr size_t kMaxDepth = 256;

  bool take(char c, std::string& out);
  void begin_value(char c, std::string& out);
  void end_value();
  void close(char c, std::string& out);
  void escape(char c, std::string& out);
  void code_digit(char c, std::string& out);
  void end_word(std::string& out);
  void fail() { state_ = State::kFailed; }

  State state_ = State::kOpen;
  Expect expect_ = Expect::kValue;
  std::string nesting_;  // '{', '[' and '('
  std::string word_;
  char quote_ = 0;
  bool is_key_ = false;
  bool has_comma_ = false;  // a ',' is not written yet, as a closing bracket may follow
  int num_digits_ = 0;
  uint32_t code_ = 0;
};

// Returns all of `text` as one literal, with or without blanks around it; nullopt: it is none.
std::optional<std::string> python_as_json(std::string_view text);

}  // namespace quire
