#include "tokenizer/model/byte_level.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

// Returns whether the byte's Latin-1 character is printable. Such bytes stand for themselves; the
// other 68 get the characters from U+0100 on, in order.
bool is_own_char(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> char_of{};
  std::array<int16_t, 0x144> byte_of{};
};

const Alphabet& alphabet() {
  static const Alphabet table = [] {
    Alphabet a;
    a.byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const char32_t c = is_own_char(b) ? b : next++;
      a.char_of[b] = c;
      a.byte_of[c] = static_cast<int16_t>(b);
    }
    return a;
  }();
  return table;
}

}  // namespace

char32_t byte_level_char(unsigned char byte) { return alphabet().char_of[byte]; }

std::string byte_level_encode(std::string_view bytes) {
  const Alphabet& a = alphabet();
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char b : bytes) append_utf8(out, a.char_of[static_cast<unsigned char>(b)]);
  return out;
}

std::optional<std::string> byte_level_decode(std::string_view piece) {
  const Alphabet& a = alphabet();
  std::string out;
  out.reserve(piece.size());
  while (!piece.empty()) {
    const CodePoint c = decode_utf8(piece);
    if (c.value >= a.byte_of.size() || a.byte_of[c.value] < 0) return std::nullopt;
    out.push_back(static_cast<char>(a.byte_of[c.value]));
    piece.remove_prefix(c.size);
  }
  return out;
}

}  // namespace quire
