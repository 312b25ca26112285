// Reads UTF-8 text by code point, checks it and repairs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

inline constexpr char32_t kReplacementChar = 0xFFFD;

struct CodePoint {
  char32_t value = 0;
  uint32_t size = 0;  // bytes that it takes; at least 1 unless the text is empty
};

// Returns the code point at the start of `text` (not empty). Ill-formed bytes give U+FFFD and the
// size of the maximal ill-formed part, as in the Unicode standard and Python's errors="replace".
CodePoint decode_utf8(std::string_view text);

void append_utf8(std::string& out, char32_t c);
std::string to_utf8(char32_t c);

// Well-formed UTF-8 has no overlong forms, no surrogates and nothing above U+10FFFF.
bool is_valid_utf8(std::string_view text);

// Returns `text` with every maximal ill-formed part replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

// Returns how many bytes at the end of `text` begin a sequence that more bytes could complete (0 to
// 3).
size_t incomplete_utf8_suffix(std::string_view text);

}  // namespace quire
