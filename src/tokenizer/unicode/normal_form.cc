#include "tokenizer/unicode/normal_form.h"

#include <utf8proc.h>

#include <cstdlib>

#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

// Returns true in the ranges above U+02FF whose characters are their own NFC and never combine with
// what precedes them; below U+0300 this holds for all characters. A text of only such characters
// needs no composing.
bool is_plain_nfc(char32_t c) {
  return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x48A && c <= 0x52F) ||
         (c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x205E) ||
         (c >= 0x2190 && c <= 0x2328) || (c >= 0x2500 && c <= 0x27BF) ||
         (c >= 0x3000 && c <= 0x3029) || (c >= 0x3041 && c <= 0x3096) ||
         (c >= 0x30A1 && c <= 0x30FA) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xFF01 && c <= 0xFF60) ||
         (c >= 0x1F300 && c <= 0x1FAFF);
}

// Returns whether the reference gives the character no normal form and does not compose with it.
bool is_opaque(char32_t c) { return (char_class(c) & kOpaque) != 0; }

// Returns whether the character is its own normal form and does not change what precedes it.
bool is_plain(char32_t c, NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return is_plain_nfc(c) || is_opaque(c);
    case NormalForm::kNfd:
      return c < 0xC0 || is_opaque(c);
    case NormalForm::kNfkc:
    case NormalForm::kNfkd:
      return c < 0xA0 || is_opaque(c);
  }
  return false;
}

// Returns the first character at `from` or later that is plain (if `wanted`) or is not, or the end.
size_t find_plain(std::string_view text, size_t from, NormalForm form, bool wanted) {
  while (from < text.size()) {
    if (static_cast<unsigned char>(text[from]) < 0x80) {
      if (wanted) return from;
      ++from;
      continue;
    }
    const CodePoint c = decode_utf8(text.substr(from));
    if (is_plain(c.value, form) == wanted) return from;
    from += c.size;
  }
  return text.size();
}

void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compat = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  int options = UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (compat) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                             static_cast<utf8proc_option_t>(options));
  if (size < 0) {  // out of memory, because the input is valid
    out += text;
    return;
  }
  out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
}

}  // namespace

// Normalizes the stretches that need it and copies the plain characters between them. A stretch
// begins with the plain character before it, because that may take part in composing.
std::string to_normal_form(std::string text, NormalForm form) {
  const std::string_view in = text;
  size_t odd = find_plain(in, 0, form, false);
  if (odd == in.size()) return text;
  std::string out;
  out.reserve(in.size() + in.size() / 8);
  size_t done = 0;
  while (odd < in.size()) {
    size_t begin = odd;
    while (begin > done && (begin == odd || (static_cast<unsigned char>(in[begin]) & 0xC0) == 0x80))
      --begin;
    if (is_opaque(decode_utf8(in.substr(begin)).value)) begin = odd;
    const size_t end = find_plain(in, odd, form, true);
    out += in.substr(done, begin - done);
    append_normalized(out, in.substr(begin, end - begin), form);
    done = end;
    odd = find_plain(in, end, form, false);
  }
  out += in.substr(done);
  return out;
}

}  // namespace quire
