#include "base/utf8.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Utf8, TellsWellFormedFromIllFormed) {
  for (const char* text :
       {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_valid_utf8(text)) << text;
  }
  // A lone continuation, cut characters, overlong forms, a surrogate, a value above U+10FFFF, and
  // bytes that never occur.
  for (const char* text :
       {"\x80", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF",
        "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "a\xC3(b"}) {
    EXPECT_FALSE(is_valid_utf8(text)) << text;
  }
}

}  // namespace
}  // namespace quire
