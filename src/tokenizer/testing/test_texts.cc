#include "tokenizer/testing/test_texts.h"

#include <iterator>

namespace quire::test {

std::string TextMaker::next() {
  static const char* const kParts[] = {
      "the",      "of ",
      " and",     "Hello",
      " World",   "don't",
      "I'll",     "WE'RE",
      " HOUSE",   "camelCase",
      "x'S",      "'ſ",
      "naïve",    " café",
      "über",     "straße",
      "日本語",   "漢字かな",
      " 한국어",  "привет",
      " МИР",     "العربية",
      "हिन्दी",    "ไทยคำ",
      "123",      " 4567890",
      "3.14",     "1,000",
      "½²",       "Ⅷ",
      "x=y;",     "foo_bar()",
      "[]{}",     "<a>",
      "</s>",     "<s>",
      "\\n",      "'''",
      "...",      " !!!",
      "??",       "--",
      "—",        "“q”",
      "۱۲۳",      "ǅ",
      "ʰª",       "fi",
      "Σς",       " ",
      "  ",       "     ",
      "\n",       "\n\n",
      "\r\n",     "\t",
      " \n ",     "\u00a0",
      "\u3000",   "\u200b",
      "\u200d",   "e\u0301",
      "\u0301",   "👍",
      "👍🏽", "👨‍👩‍👧",
      "🇩🇪",       "\u0085",
      "\u2028",   "\x0b",
      "ⓐ",        "가각",
      "々〆",     "Å",
      "ﬁ",        "①",
      "▁",        "▁▁",
      "Ġ",        "##a",
      "<0x0A>",   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      "/\n/",     "A",
      "bC",
  };
  std::string text;
  const auto count = rng_() % 14;
  for (size_t i = 0; i < count; ++i) text += kParts[rng_() % std::size(kParts)];
  return text;
}

}  // namespace quire::test
