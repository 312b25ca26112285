#include "tokenizer/stages/word_scanner.h"

#include <array>
#include <initializer_list>

#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

constexpr uint16_t kLetterNumberSpace = kLetter | kNumber | kSpace;
constexpr uint16_t kUpperRun = kUpper | kOtherLetter | kMark;
constexpr uint16_t kLowerRun = kLower | kOtherLetter | kMark;

// A Reader returns characters with their classes. Positions are bytes at the starts of characters.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = classes_(c);
  }

  size_t size() const { return text_.size(); }
  // Returns 0 past the end.
  char byte(size_t pos) const { return pos < text_.size() ? text_[pos] : '\0'; }

  struct Char {
    uint16_t bits = 0;
    size_t end = 0;
  };
  // Returns a character without classes past the end.
  Char at(size_t pos) const {
    if (pos >= text_.size()) return {0, pos};
    const auto b = static_cast<unsigned char>(text_[pos]);
    if (b < 128) return {ascii_[b], pos + 1};
    const CodePoint c = decode_utf8(text_.substr(pos));
    return {classes_(c.value), pos + c.size};
  }
  bool has(size_t pos) const { return pos < text_.size(); }

  size_t skip_all_of(size_t pos, uint16_t bits) const {
    for (Char c = at(pos); (c.bits & bits) != 0; c = at(pos)) pos = c.end;
    return pos;
  }
  size_t skip_none_of(size_t pos, uint16_t bits) const {
    while (has(pos)) {
      const Char c = at(pos);
      if ((c.bits & bits) != 0) break;
      pos = c.end;
    }
    return pos;
  }
  bool is_newline(size_t pos) const { return byte(pos) == '\r' || byte(pos) == '\n'; }

 private:
  std::string_view text_;
  CharClasses classes_;
  std::array<uint16_t, 128> ascii_{};
};

// Returns the end of 's 't 'm 'd 're 've 'll at `pos`, or `pos` if there is none. Ignoring case, s
// is also U+017F (long s).
size_t contraction_end(const Reader& in, size_t pos, bool ignore_case) {
  if (in.byte(pos) != '\'') return pos;
  const auto letter = [&](size_t at) {
    const char c = in.byte(at);
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char a = letter(pos + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
  const char b = letter(pos + 2);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 3;
  if (ignore_case && in.byte(pos + 1) == '\xC5' && in.byte(pos + 2) == '\xBF') return pos + 3;
  return pos;
}

// Returns the end of a match of \s+(?!\S)|\s+ or a variant of it at `pos`, which is a white-space
// character.
size_t space_end(const Reader& in, size_t pos, bool stop_after_newline, bool whole_final_space) {
  size_t end = pos;
  size_t last_begin = pos;
  size_t after_newline = 0;
  for (Reader::Char c = in.at(end); (c.bits & kSpace) != 0; c = in.at(end)) {
    if (in.is_newline(end)) after_newline = c.end;
    last_begin = end;
    end = c.end;
  }
  if (whole_final_space && end == in.size()) return end;
  if (stop_after_newline && after_newline != 0) return after_newline;
  if (end == in.size() || last_begin == pos) return end;
  return last_begin;
}

size_t gpt2_word_end(const Reader& in, size_t pos) {
  if (const size_t end = contraction_end(in, pos, false); end != pos) return end;
  const size_t start = in.byte(pos) == ' ' && in.has(pos + 1) ? pos + 1 : pos;
  const Reader::Char c = in.at(start);
  if ((c.bits & kLetter) != 0) return in.skip_all_of(c.end, kLetter);
  if ((c.bits & kNumber) != 0) return in.skip_all_of(c.end, kNumber);
  if ((c.bits & kSpace) == 0) return in.skip_none_of(c.end, kLetterNumberSpace);
  return space_end(in, pos, false, false);
}

// Returns the end of a match of the alternatives that cl100k and o200k share behind those of
// letters.
size_t tail_word_end(const Reader& in, size_t pos, int max_digits, bool whole_final_space,
                     bool eat_slashes) {
  Reader::Char c = in.at(pos);
  if ((c.bits & kNumber) != 0) {
    size_t end = c.end;
    for (int i = 1; i < max_digits; ++i) {
      c = in.at(end);
      if ((c.bits & kNumber) == 0) break;
      end = c.end;
    }
    return end;
  }
  const size_t start = in.byte(pos) == ' ' && in.has(pos + 1) ? pos + 1 : pos;
  if ((in.at(start).bits & kLetterNumberSpace) == 0) {
    size_t end = in.skip_none_of(start, kLetterNumberSpace);
    while (in.is_newline(end) || (eat_slashes && in.byte(end) == '/')) ++end;
    return end;
  }
  return space_end(in, pos, true, whole_final_space);
}

// Returns whether a character may precede the letters of a word: [^\r\n\p{L}\p{N}].
bool can_lead(const Reader& in, size_t pos, Reader::Char c) {
  return (c.bits & (kLetter | kNumber)) == 0 && !in.is_newline(pos);
}

size_t cl100k_word_end(const Reader& in, size_t pos, int max_digits, bool whole_final_space) {
  const Reader::Char c = in.at(pos);
  if ((c.bits & kLetter) != 0) return in.skip_all_of(c.end, kLetter);
  if (const size_t end = contraction_end(in, pos, true); end != pos) return end;
  if (can_lead(in, pos, c)) {
    const size_t end = in.skip_all_of(c.end, kLetter);
    if (end != c.end) return end;
  }
  return tail_word_end(in, pos, max_digits, whole_final_space, false);
}

// Returns the end of a match of [upper]*[lower]+ at `pos`, with the backtracking of the regular
// expression, or `pos` if there is none.
size_t mixed_case_end(const Reader& in, size_t pos) {
  size_t end = pos;
  size_t after_shared = pos;  // behind the last character that is in both classes
  for (Reader::Char c = in.at(end); (c.bits & kUpperRun) != 0; c = in.at(end)) {
    end = c.end;
    if ((c.bits & kLowerRun) != 0) after_shared = end;
  }
  const size_t lower_end = in.skip_all_of(end, kLowerRun);
  return lower_end != end ? lower_end : after_shared;
}

// Returns the end of a match of [upper]+[lower]* at `pos`, or `pos` if there is none.
size_t upper_first_end(const Reader& in, size_t pos) {
  const size_t end = in.skip_all_of(pos, kUpperRun);
  return end == pos ? pos : in.skip_all_of(end, kLowerRun);
}

size_t o200k_word_end(const Reader& in, size_t pos) {
  const Reader::Char c = in.at(pos);
  const bool leads = can_lead(in, pos, c);
  for (const auto match : {mixed_case_end, upper_first_end}) {
    if (leads) {
      const size_t end = match(in, c.end);
      if (end != c.end) return contraction_end(in, end, true);
    }
    const size_t end = match(in, pos);
    if (end != pos) return contraction_end(in, end, true);
  }
  return tail_word_end(in, pos, 3, false, true);
}

}  // namespace

std::optional<WordScanner> WordScanner::for_pattern(std::string_view pattern) {
  constexpr std::string_view kGpt2Grouped =
      R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  constexpr std::string_view kCl100kFirst =
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
  if (pattern == kGpt2Pattern || pattern == kGpt2Grouped || pattern == kR50kPattern) return gpt2();
  if (pattern == kQwen2Pattern) return WordScanner({.family = Family::kCl100k, .max_digits = 1});
  if (pattern == kLlama3Pattern || pattern == kCl100kFirst) {
    return WordScanner({.family = Family::kCl100k, .max_digits = 3});
  }
  if (pattern == kCl100kPattern) {
    return WordScanner({.family = Family::kCl100k, .max_digits = 3, .whole_final_space = true});
  }
  if (pattern == kO200kPattern) return WordScanner({.family = Family::kO200k, .max_digits = 3});
  return std::nullopt;
}

void WordScanner::scan(std::string_view text, std::vector<std::string_view>& words) const {
  const Reader in(text);
  const auto tile = [&](auto&& word_end) {
    for (size_t pos = 0; pos < text.size();) {
      const size_t end = word_end(pos);
      words.push_back(text.substr(pos, end - pos));
      pos = end;
    }
  };
  switch (options_.family) {
    case Family::kGpt2:
      tile([&](size_t pos) { return gpt2_word_end(in, pos); });
      break;
    case Family::kCl100k:
      tile([&](size_t pos) {
        return cl100k_word_end(in, pos, options_.max_digits, options_.whole_final_space);
      });
      break;
    case Family::kO200k:
      tile([&](size_t pos) { return o200k_word_end(in, pos); });
      break;
  }
}

}  // namespace quire
