// PythonScanner turns Python literals into JSON while they come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// None, True, False and their JSON names, numbers, strings of both quotes, lists, tuples and dicts
// with string keys. Feeds on bytes as JsonScanner does; what goes out is always the beginning of a
// valid JSON value.
class PythonScanner {
 public:
  enum class State : uint8_t { kOpen, kDone, kFailed };

  // Takes bytes from the front until the literal is complete or wrong; returns how many. A number
  // or word is complete when a byte has come that is not its own (or at end()).
  size_t feed(std::string_view text, std::string& out);
  void end(std::string& out);
  State state() const { return state_; }

 private:
  enum class Expect : uint8_t {
    kValue,
    kFirst,  // behind an opening bracket
    kItem,   // behind ',': a value or the closing bracket
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
  bool has_comma_ = false;  // a ',' has come that is not written yet: the next may be a bracket
  int num_digits_ = 0;
  uint32_t code_ = 0;
};

// The whole of `text` as one literal, blanks around it aside.
std::optional<std::string> python_as_json(std::string_view text);

}  // namespace quire
