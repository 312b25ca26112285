// Follows one JSON value byte by byte, so that a call's arguments can go out while they come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// What goes out is always the beginning of a valid JSON value. Bytes pass unchanged, except raw
// control characters inside strings, which models write and JSON forbids: they become escapes.
class JsonScanner {
 public:
  enum class State : uint8_t { kOpen, kDone, kFailed };

  // Takes bytes of `text` from the front until the value is complete or wrong, appends what goes
  // out to `out`, and returns how many bytes were taken. A number or word is complete when a byte
  // has come that is not its own (or at end()).
  size_t feed(std::string_view text, std::string& out);
  // The text has ended: a number that was still open is complete.
  void end();
  State state() const { return state_; }

 private:
  enum class Expect : uint8_t {
    kValue,
    kFirstKey,   // behind '{'
    kFirstItem,  // behind '['
    kKey,        // behind ',' in an object
    kColon,
    kSeparator,  // behind a value inside of something
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
  bool is_key_ = false;  // the string that is read
};

// Whether `text` is one JSON value, blanks around it aside.
bool is_json(std::string_view text);
// `text` as a JSON string, quotes included; UTF-8 stays as it is.
std::string json_string(std::string_view text);
// Appends the same without quotes.
void append_json_escaped(std::string_view text, std::string& out);

}  // namespace quire
