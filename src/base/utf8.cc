#include "base/utf8.h"

#include <cstring>

namespace quire {

CodePoint decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char b0 = byte(0);
  if (b0 < 0x80) return {b0, 1};
  if (b0 < 0xC2 || b0 > 0xF4) return {kReplacementChar, 1};
  const uint32_t size = b0 < 0xE0 ? 2 : b0 < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values past U+10FFFF.
  const unsigned char low = b0 == 0xE0 ? 0xA0 : b0 == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = b0 == 0xED ? 0x9F : b0 == 0xF4 ? 0x8F : 0xBF;
  char32_t value = b0 & (0xFFu >> (size + 1));
  for (uint32_t i = 1; i < size; ++i) {
    if (i >= text.size()) return {kReplacementChar, i};
    const unsigned char b = byte(i);
    const bool good = i == 1 ? (b >= low && b <= high) : (b & 0xC0) == 0x80;
    if (!good) return {kReplacementChar, i};
    value = (value << 6) | (b & 0x3Fu);
  }
  return {value, size};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}

namespace {

// Returns how many bytes at the start of `text` are ASCII; counts eight at a time.
size_t ascii_prefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t chunk;
    std::memcpy(&chunk, text.data() + i, 8);
    if (chunk & 0x8080808080808080u) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

// Returns how many bytes at the start of `text` are well-formed.
size_t valid_prefix(std::string_view text) {
  size_t i = 0;
  while (true) {
    i += ascii_prefix(text.substr(i));
    if (i == text.size()) return i;
    const CodePoint c = decode_utf8(text.substr(i));
    const bool is_literal_replacement = c.size == 3 && text.compare(i, 3, "\xEF\xBF\xBD") == 0;
    if (c.value == kReplacementChar && !is_literal_replacement) return i;
    i += c.size;
  }
}

}  // namespace

bool is_valid_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t good = valid_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    append_utf8(out, kReplacementChar);
    text.remove_prefix(decode_utf8(text).size);
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  const size_t longest = text.size() < 3 ? text.size() : 3;
  for (size_t n = 1; n <= longest; ++n) {
    const auto b = static_cast<unsigned char>(text[text.size() - n]);
    if ((b & 0xC0) == 0x80) continue;
    if (b < 0xC2 || b > 0xF4) return 0;
    const size_t size = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
    // The end is incomplete only if all of its bytes could still become one well-formed sequence.
    return n < size && decode_utf8(text.substr(text.size() - n)).size == n ? n : 0;
  }
  return 0;
}

}  // namespace quire
