// These are the character classes by which tokenizers split text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace quire {

// The bits that char_class() returns. Categories are those of Unicode 16 unless another version is
// named, because parts of Hugging Face's tokenizers use other versions.
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
  kOther = 1 << 10,       // Cc, Cf, Co of Unicode 8, except tab and line ends
  kNonSpacing = 1 << 11,  // Mn of Unicode 8
  kLegacyMark = 1 << 12,  // M* of Unicode 12
  kNumeric = 1 << 13,     // N* of Unicode 17
  kOpaque = 1 << 14,      // unassigned in Unicode 12, whose normal forms tokenizers use
  kLetter = kUpper | kLower | kOtherLetter,
};

namespace unicode_internal {
// A table in two stages: the page of c >> 8, then the class of c & 255.
struct ClassTable {
  uint16_t page[0x1100];
  std::basic_string<uint16_t> classes;
};
const ClassTable& class_table();
}  // namespace unicode_internal

// A CharClasses looks up classes without checking the guard of a function-local static on every
// call. It is cheap to copy.
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

// Appends the lower case of one character by Unicode's full mapping (U+0130 gives two characters).
void append_lowercase(std::string& out, char32_t c);

}  // namespace quire
