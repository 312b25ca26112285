#include "chat/reply/json_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "chat/reply/reply_input.h"

namespace quire {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool is_word_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.';
}

// The form of a JSON number is -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_number(std::string_view word) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < word.size() && is_digit(word[at])) ++at;
    return at - begin;
  };
  if (at < word.size() && word[at] == '-') ++at;
  const bool leading_zero = at < word.size() && word[at] == '0';
  const size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (at < word.size() && word[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == word.size();
}

constexpr std::string_view kWords[] = {"true", "false", "null"};

bool is_word(std::string_view word) {
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords) ||
         is_number(word);
}

// Returns whether more characters can make it a word or a number.
bool begins_word(std::string_view word) {
  const bool begins_name = std::any_of(std::begin(kWords), std::end(kWords),
                                       [&](auto name) { return name.starts_with(word); });
  return begins_name || is_number(word) || is_number(std::string(word) + '0');
}

}  // namespace

size_t JsonScanner::feed(std::string_view text, std::string& out) {
  size_t at = 0;
  while (at < text.size() && state_ == State::kOpen) {
    if (!take(text[at], out)) break;
    ++at;
  }
  return at;
}

void JsonScanner::end() {
  if (state_ != State::kOpen || expect_ != Expect::kWord) return;
  is_word(word_) ? end_value() : fail();
}

// Returns false when the byte does not belong to the value.
bool JsonScanner::take(char c, std::string& out) {
  if (expect_ == Expect::kWord) {
    if (is_word_char(c)) {
      constexpr size_t kMaxWordBytes = 64;
      word_ += c;
      if (word_.size() > kMaxWordBytes || !begins_word(word_)) fail();
      if (state_ == State::kOpen) out += c;
      return state_ == State::kOpen;
    }
    end();
    if (state_ != State::kOpen) return false;
  }
  if (expect_ == Expect::kString || expect_ == Expect::kEscape || expect_ == Expect::kHex) {
    string_char(c, out);
  } else if (!is_blank(c)) {
    switch (expect_) {
      case Expect::kFirstItem:
      case Expect::kFirstKey:
        if (c == (expect_ == Expect::kFirstItem ? ']' : '}')) {
          nesting_.pop_back();
          end_value();
          break;
        }
        [[fallthrough]];
      case Expect::kValue:
      case Expect::kKey:
        begin_value(c);
        break;
      case Expect::kColon:
        c == ':' ? void(expect_ = Expect::kValue) : fail();
        break;
      default:
        separator(c);
    }
    if (state_ != State::kFailed) out += c;
  } else {
    out += c;
  }
  return state_ != State::kFailed;
}

void JsonScanner::begin_value(char c) {
  is_key_ = expect_ == Expect::kKey || expect_ == Expect::kFirstKey;
  if (c == '"') {
    expect_ = Expect::kString;
  } else if (is_key_ || nesting_.size() == kMaxDepth) {
    fail();
  } else if (c == '{' || c == '[') {
    nesting_ += c;
    expect_ = c == '{' ? Expect::kFirstKey : Expect::kFirstItem;
  } else if (begins_word({&c, 1})) {
    word_ = c;
    expect_ = Expect::kWord;
  } else {
    fail();
  }
}

void JsonScanner::end_value() {
  if (is_key_) {
    is_key_ = false;
    expect_ = Expect::kColon;
  } else if (nesting_.empty()) {
    state_ = State::kDone;
  } else {
    expect_ = Expect::kSeparator;
  }
}

void JsonScanner::separator(char c) {
  const bool in_object = nesting_.back() == '{';
  if (c == ',') {
    expect_ = in_object ? Expect::kKey : Expect::kValue;
  } else if (c == (in_object ? '}' : ']')) {
    nesting_.pop_back();
    end_value();
  } else {
    fail();
  }
}

void JsonScanner::string_char(char c, std::string& out) {
  if (expect_ == Expect::kHex) {
    if (!is_hex(c)) return fail();
    if (--num_hex_ == 0) expect_ = Expect::kString;
  } else if (expect_ == Expect::kEscape) {
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return fail();
    expect_ = c == 'u' ? Expect::kHex : Expect::kString;
    num_hex_ = 4;
  } else if (c == '\\') {
    expect_ = Expect::kEscape;
  } else if (c == '"') {
    end_value();
  } else if (static_cast<unsigned char>(c) < 0x20) {
    return append_json_escaped({&c, 1}, out);
  }
  out += c;
}

bool is_json(std::string_view text) {
  JsonScanner scanner;
  std::string out;
  const size_t size = scanner.feed(text, out);
  scanner.end();
  return scanner.state() == JsonScanner::State::kDone &&
         text.find_first_not_of(kBlanks, size) == text.npos;
}

void append_json_escaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(text, out);
  return out += '"';
}

}  // namespace quire
