#include "base/text_fields.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_folder.h"

namespace quire {
namespace {

TEST(ReadText, WholeFilesUpToALimit) {
  const test::TempFolder dir;
  const std::string path = dir / "text";
  const std::string text(200'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(read_text(path, text.size()).value(), text);
  EXPECT_EQ(read_text(path, text.size() - 1).status().code(), StatusCode::kTooLarge);
  EXPECT_EQ(read_text(dir.path(), 100).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(read_text(dir / "none", 100).status().code(), StatusCode::kNotFound);
}

TEST(ReadText, GzipMustBeWhole) {
  const test::TempFolder dir;
  const std::string path = dir / "text.gz";
  constexpr char kPacked[] =
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\xcf\x4b\x55"
      "\xc8\xc9\xcc\x4b\xe5\x02\x00\x35\x3c\x6a\xde\x09\x00\x00"
      "\x00";
  const std::string packed(kPacked, sizeof kPacked - 1);
  std::ofstream(path, std::ios::binary) << packed;
  EXPECT_EQ(read_text(path, 100).value(), "one line\n");
  for (const size_t size : {packed.size() - 1, packed.size() - 8, packed.size() - 10}) {
    std::ofstream(path, std::ios::binary) << packed.substr(0, size);
    EXPECT_EQ(read_text(path, 100).status().code(), StatusCode::kDataLoss) << size;
  }
}

TEST(ParseDateTime, ZonesCountAndWithoutOneItIsUtc) {
  const auto ns = [](std::string_view text) { return parse_date_time_ns(text, "here").value(); };
  EXPECT_EQ(ns("1970-01-02 00:00:01.5"), 86'401'500'000'000);
  EXPECT_EQ(ns("2023-11-16T18:00:00+02:00"), ns("2023-11-16 16:00:00Z"));
  EXPECT_EQ(ns("2023-11-16 14:30:00-01:30"), ns("2023-11-16 16:00:00"));
  for (const std::string_view bad : {"2023-13-16 16:00:00", "2023-11-16 16:00:00+2", "yesterday"}) {
    EXPECT_EQ(parse_date_time_ns(bad, "here").status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace quire
