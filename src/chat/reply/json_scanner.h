// JsonScanner follows one JSON value byte by byte, so that a call's arguments can be sent while
// they arrive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// The output is always the beginning of a valid JSON value. Bytes pass unchanged, except for raw
// control characters inside strings: models write them, but JSON forbids them, so they become
// escapes.
class JsonScanner {
 public:
  enum class State : uint8_t { kOpen, kDone, kFailed };

  // Takes bytes from the front of `text` until the value is complete or wrong, appends the output
  // to `out`, and returns how many bytes were taken. A number or word is complete when a byte has
  // come that does not belong to it, or at end().
  size_t feed(std::string_view text, std::string& out);
  // Ends the text: an unfinished number is complete.
  void end();
  State state() const { return state_; }

 private:
  enum class Expect : uint8_t {
    kValue,
    kFirstKey,   // after '{'
    kFirstItem,  // after '['
    kKey,        // after ',' in an object
    kColon,
    kSeparator,  // after a value inside an object or a list
    kString,
    kEscape,
    kHex,
    kWord,  // number, true, false, null
  };
  static constexpr size_t kMaxDepth = 256;

  bool take(char c, std::string& out);
  void begin_value(char c);
  void end_value();
  void separator(char c);
  void string_char(char c, std::string& out);
  void fail() { state_ = State::kFailed; }

  State state_ = State::kOpen;
  Expect expect_ = Expect::kValue;
  std::string nesting_;  // '{' and '['
  std::string word_;
  int num_hex_ = 0;
  bool is_key_ = false;  // the current string is a key
};

// Returns whether `text` is one JSON value, with or without blanks around it.
bool is_json(std::string_view text);
// Returns `text` as a JSON string with quotes; UTF-8 stays as it is.
std::string json_string(std::string_view text);
// Appends the same without quotes.
void append_json_escaped(std::string_view text, std::string& out);

}  // namespace quire
