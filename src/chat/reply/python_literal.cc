#include "chat/reply/python_literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "chat/reply/json_scanner.h"
#include "chat/reply/reply_input.h"

namespace quire {
namespace {

bool is_word_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '+' || c == '.' || c == '_';
}

// Returns the JSON of a bare word; empty when it is no literal.
std::string word_as_json(std::string word) {
  if (word == "None") word = "null";
  if (word == "True") word = "true";
  if (word == "False") word = "false";
  std::erase(word, '_');
  if (word.starts_with('+')) word.erase(0, 1);
  // The numbers 1. and .5 are valid in Python, but not in JSON.
  const size_t point = word.find('.');
  if (point != word.npos) {
    if (point + 1 == word.size()) word += '0';
    if (point == 0 || word[point - 1] == '-') word.insert(point, "0");
  }
  if (!is_json(word)) word.clear();
  return word;
}

}  // namespace

size_t PythonScanner::feed(std::string_view text, std::string& out) {
  size_t at = 0;
  while (at < text.size() && state_ == State::kOpen) {
    if (!take(text[at], out)) break;
    ++at;
  }
  return at;
}

void PythonScanner::end(std::string& out) {
  if (state_ == State::kOpen && expect_ == Expect::kWord) end_word(out);
}

bool PythonScanner::take(char c, std::string& out) {
  if (expect_ == Expect::kWord) {
    constexpr size_t kMaxWordBytes = 64;
    if (is_word_char(c) && word_.size() < kMaxWordBytes) {
      word_ += c;
      return true;
    }
    end_word(out);
    if (state_ != State::kOpen) return false;
  }
  switch (expect_) {
    case Expect::kString:
      if (c == quote_) {
        out += '"';
        end_value();
      } else if (c == '\\') {
        expect_ = Expect::kEscape;
      } else {
        append_json_escaped({&c, 1}, out);
      }
      return true;
    case Expect::kEscape:
      escape(c, out);
      break;
    case Expect::kCode:
      code_digit(c, out);
      break;
    case Expect::kColon:
      if (is_blank(c)) return true;
      if (c != ':') {
        fail();
        break;
      }
      out += ": ";
      expect_ = Expect::kValue;
      break;
    case Expect::kSeparator:
      if (is_blank(c)) return true;
      if (c == ',') {
        has_comma_ = true;
        expect_ = Expect::kItem;
      } else {
        close(c, out);
      }
      break;
    default:
      if (is_blank(c)) return true;
      if (expect_ != Expect::kValue && (c == ']' || c == '}' || c == ')')) {
        close(c, out);
      } else {
        begin_value(c, out);
      }
  }
  return state_ != State::kFailed;
}

void PythonScanner::begin_value(char c, std::string& out) {
  is_key_ = expect_ != Expect::kValue && !nesting_.empty() && nesting_.back() == '{';
  if (has_comma_) out += ", ";
  has_comma_ = false;
  if (c == '"' || c == '\'') {
    quote_ = c;
    out += '"';
    expect_ = Expect::kString;
  } else if (is_key_ || nesting_.size() == kMaxDepth) {
    fail();
  } else if (c == '{' || c == '[' || c == '(') {
    nesting_ += c;
    out += c == '{' ? '{' : '[';
    expect_ = Expect::kFirst;
  } else if (is_word_char(c)) {
    word_ = c;
    expect_ = Expect::kWord;
  } else {
    fail();
  }
}

void PythonScanner::end_value() {
  if (is_key_) {
    is_key_ = false;
    expect_ = Expect::kColon;
  } else if (nesting_.empty()) {
    state_ = State::kDone;
  } else {
    expect_ = Expect::kSeparator;
  }
}

void PythonScanner::close(char c, std::string& out) {
  constexpr std::string_view kOpen = "{[(", kClose = "}])";
  if (nesting_.empty() || kClose.find(c) == kClose.npos ||
      kOpen[kClose.find(c)] != nesting_.back()) {
    return fail();
  }
  has_comma_ = false;
  nesting_.pop_back();
  out += c == '}' ? '}' : ']';
  is_key_ = false;
  end_value();
}

void PythonScanner::escape(char c, std::string& out) {
  expect_ = Expect::kString;
  constexpr std::string_view kNames = "nrtbfav0", kBytes = "\n\r\t\b\f\a\v";
  const size_t at = kNames.find(c);
  if (c == 'x' || c == 'u' || c == 'U') {
    num_digits_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    code_ = 0;
    expect_ = Expect::kCode;
  } else if (at < kBytes.size()) {
    append_json_escaped(kBytes.substr(at, 1), out);
  } else if (c == '0') {
    append_json_escaped({"\0", 1}, out);
  } else if (c == '\n') {  // a continued line
  } else if (c == '\'' || c == '"' || c == '\\') {
    append_json_escaped({&c, 1}, out);
  } else {  // Python keeps the backslash of an escape that it does not know.
    out += "\\\\";
    append_json_escaped({&c, 1}, out);
  }
}

void PythonScanner::code_digit(char c, std::string& out) {
  uint32_t digit = 0;
  const auto [end, error] = std::from_chars(&c, &c + 1, digit, 16);
  if (error != std::errc()) return fail();
  code_ = code_ << 4 | digit;
  if (--num_digits_ > 0) return;
  expect_ = Expect::kString;
  if (code_ > 0x10FFFF) return fail();
  if (code_ < 0x80) {
    const char ascii = static_cast<char>(code_);
    append_json_escaped({&ascii, 1}, out);
  } else if (code_ < 0x10000) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", code_);
  } else {
    const uint32_t pair = code_ - 0x10000;
    fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xD800 + (pair >> 10),
                   0xDC00 + (pair & 0x3FF));
  }
}

void PythonScanner::end_word(std::string& out) {
  const std::string word = word_as_json(word_);
  if (word.empty()) return fail();
  out += word;
  end_value();
}

std::optional<std::string> python_as_json(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
  PythonScanner scanner;
  std::string out;
  const size_t size = scanner.feed(text, out);
  scanner.end(out);
  if (scanner.state() != PythonScanner::State::kDone || size != text.size()) return std::nullopt;
  return out;
}

}  // namespace quire
