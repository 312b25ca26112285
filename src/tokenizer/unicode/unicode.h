// These are the character classes that tokenizers split by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace quire {

// char_class() returns these bits. Categories are those of Unicode 16 unless another version is
// named, because parts of Hugging Face's tokenizers go by data of their own.
enum CharClass : uint16_t {
  kUpper = 1 << 0,        // Lu, Lt
  kLower = 1 << 1,        // Ll
  kOtherLetter = 1 << 2,  // Lm, Lo
  kMark = 1 << 3,         // M*
  kNumber = 1 << 4,       // N*
  kDecimal = 1 << 5,      // Nd
  kSpace = 1 << 6,        // White_Space
  kPunctuation = 1 << 7,  // P* of Unicode 8, and ASCII symbols
  kSymbol = 1 << 8,       // S*
  kWord = 1 << 9,         // \w: letters, marks, decimal and letter numbers, connectors, joiners
  kOther = 1 << 10,       // Cc, Cf, Co of Unicode 8, but not tab and the ends of lines
  kNonSpacing = 1 << 11,  // Mn of Unicode 8
  kLegacyMark = 1 << 12,  // M* of Unicode 12
  kNumeric = 1 << 13,     // N* of Unicode 17
  kOpaque = 1 << 14,      // unknown to Unicode 12, whose normal forms tokenizers go by
  kLetter = kUpper | kLower | kOtherLetter,
};

namespace unicode_internal {
// The table has two stages: the page of c >> 8, then the class of c & 255.
struct ClassTable {
  uint16_t page[0x1100];
  std::basic_string<uint16_t> classes;
};
const ClassTable& class_table();
}  // namespace unicode_internal

// CharClasses looks classes up without the guard of a function-local static on every call, and is
// cheap to copy.
class CharClasses {
 public:
  CharClasses() : table_(unicode_internal::class_table()) {}
  uint16_t operator()(char32_t c) const {
    if (c > 0x10FFFF) return 0;
    return table_.classes[static_cast<size_t>(table_.page[c >> 8]) * 256 + (c & 255)];
  }

 private:
  const unicode_internal::ClassTable& table_;
};

uint16_t char_class(char32_t c);

// Appends the lower case of one character as Unicode's full mapping has it (U+0130 gives two).
void append_lowercase(std::string& out, char32_t c);

}  // namespace quire
