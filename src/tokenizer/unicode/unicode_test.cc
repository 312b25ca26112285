#include "tokenizer/unicode/unicode.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "tokenizer/model/byte_level.h"

namespace quire {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string text = to_utf8(c);
    const CodePoint back = decode_utf8(text);
    ASSERT_EQ(back.value, c);
    ASSERT_EQ(back.size, text.size());
    ASSERT_TRUE(is_valid_utf8(text));
  }
}

TEST(Utf8, EachMaximalIllFormedPartIsReplacedOnce) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(to_valid_utf8("a\xFF"
                          "b"),
            "a" + r + "b");
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), r + r);                  // overlong
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // past U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xE2\x96"
                          "x"),
            r + "x");  // cut off: one part
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98"), r);
  EXPECT_EQ(to_valid_utf8("\xE2\x96\x81\x80"), "\xE2\x96\x81" + r);
  EXPECT_EQ(to_valid_utf8(r), r);
  EXPECT_TRUE(is_valid_utf8(r));
  EXPECT_FALSE(is_valid_utf8("12345678\x80"));
}

TEST(Utf8, KnowsWhatCouldStillBeCompleted) {
  EXPECT_EQ(incomplete_utf8_suffix("a"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xE2"), 1u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xE2\x96"), 2u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xE2\x96\x81"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_suffix("\xE0\x80"), 0u);  // overlong already
  EXPECT_EQ(incomplete_utf8_suffix("\xFF"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\x80\x80\x80"), 0u);
}

TEST(CharClass, KnowsTheOddOnes) {
  EXPECT_TRUE(char_class(U'ǅ') & kUpper);
  EXPECT_TRUE(char_class(U'ʰ') & kOtherLetter);
  EXPECT_TRUE(char_class(0x0301) & kMark);
  EXPECT_TRUE(char_class(U'½') & kNumber);
  EXPECT_FALSE(char_class(U'½') & kWord);
  EXPECT_TRUE(char_class(0x85) & kSpace);
  EXPECT_FALSE(char_class(0x180E) & kSpace);
  EXPECT_TRUE(char_class(U'ⓐ') & kWord);
  EXPECT_TRUE(char_class(0x200D) & kWord);  // zero-width joiner
  EXPECT_EQ(char_class(0x110000), 0);
}

TEST(ByteLevel, AllBytesRoundTrip) {
  std::string bytes;
  for (int b = 0; b < 256; ++b) bytes.push_back(static_cast<char>(b));
  const std::string piece = byte_level_encode(bytes);
  EXPECT_TRUE(is_valid_utf8(piece));
  EXPECT_EQ(byte_level_decode(piece), bytes);
  EXPECT_EQ(byte_level_encode(" the\n"), "ĠtheĊ");
  EXPECT_EQ(byte_level_decode("a b"), std::nullopt);
}

TEST(Base64, DecodesAndRefuses) {
  EXPECT_EQ(base64_decode("aGVsbG8="), "hello");
  EXPECT_EQ(base64_decode("aGVsbG8"), "hello");
  EXPECT_EQ(base64_decode(""), "");
  EXPECT_EQ(base64_decode("a"), std::nullopt);
  EXPECT_EQ(base64_decode("aGVsbG8=="), std::nullopt);
  EXPECT_EQ(base64_decode("a*b="), std::nullopt);
}

}  // namespace
}  // namespace quire
