#include "fetch/answer_to_part.h"

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace quire::fetch {
namespace {

class AnswerToPartTest : public ::testing::Test {
 protected:
  AnswerToPartTest() { EXPECT_TRUE(part_.begin("\"v1\"").ok() && part_.append("abc").ok()); }

  Status head(int status, net::HeaderList headers, std::optional<uint64_t> length = {}) {
    return answer_.on_head({.status = status, .headers = std::move(headers), .length = length});
  }

  const test::TempFolder folder_;
  PartialFile part_ = PartialFile::open((folder_ / "part").string(), {}).value();
  const net::Url url_ = *net::parse_url("http://a/x");
  uint64_t room_ = 100;
  const std::function<Status(uint64_t)> check_room_ = [this](uint64_t bytes) {
    return bytes <= room_ ? Status() : resource_exhausted("no room");
  };
  AnswerToPart answer_{url_, part_, check_room_};
};

TEST_F(AnswerToPartTest, AsksForTheRestOfThisVersion) {
  const net::HeaderList headers = headers_for(part_);
  EXPECT_EQ(headers[1].second, "bytes=3-");
  EXPECT_EQ(headers[2].second, "\"v1\"");
}

TEST_F(AnswerToPartTest, TakesTheRest) {
  ASSERT_TRUE(head(206, {{"Content-Range", "bytes 3-4/5"}}).ok());
  ASSERT_TRUE(answer_.on_body("de").ok());
  EXPECT_EQ(part_.size_bytes(), 5u);
}

TEST_F(AnswerToPartTest, TakesNoOtherBytesThanThoseThatItAskedFor) {
  EXPECT_FALSE(head(206, {{"Content-Range", "bytes 0-4/5"}}).ok());
  EXPECT_FALSE(head(206, {}).ok());
  EXPECT_FALSE(head(206, {{"content-range", "bytes 3-9/5"}}).ok());
  EXPECT_EQ(part_.size_bytes(), 3u);
}

TEST_F(AnswerToPartTest, BeginsAnewWithAnotherVersion) {
  ASSERT_TRUE(head(200, {{"ETag", "\"v2\""}}, 2).ok());
  ASSERT_TRUE(answer_.on_body("xy").ok());
  EXPECT_EQ(part_.size_bytes(), 2u);
  EXPECT_EQ(part_.version(), "\"v2\"");
}

TEST_F(AnswerToPartTest, WeakTagsTellNothing) {
  ASSERT_TRUE(head(200, {{"ETag", "W/\"v2\""}}).ok());
  EXPECT_EQ(part_.version(), "");
}

TEST_F(AnswerToPartTest, NothingMoreToCome) {
  EXPECT_TRUE(head(416, {{"Content-Range", "bytes */3"}}).ok());
  EXPECT_EQ(part_.size_bytes(), 3u);
  EXPECT_EQ(head(416, {{"Content-Range", "bytes */2"}}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(part_.size_bytes(), 0u);
}

TEST_F(AnswerToPartTest, ErrorsAndRedirects) {
  EXPECT_EQ(head(404, {}).code(), StatusCode::kNotFound);
  EXPECT_EQ(head(403, {}).code(), StatusCode::kInvalidArgument);
  for (const int status : {408, 429, 500, 503})
    EXPECT_EQ(head(status, {}).code(), StatusCode::kUnavailable) << status;
  EXPECT_EQ(head(200, {{"Content-Encoding", "gzip"}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(head(302, {}).code(), StatusCode::kUnavailable);
  ASSERT_TRUE(head(302, {{"location", "/there"}}).ok());
  EXPECT_EQ(answer_.redirect(), "/there");
  ASSERT_TRUE(answer_.on_body("what nobody wants").ok());
  EXPECT_FALSE(answer_.on_body(std::string(2 << 20, 'x')).ok());
  EXPECT_EQ(part_.size_bytes(), 3u);
}

TEST_F(AnswerToPartTest, AsksForRoomFirst) {
  EXPECT_EQ(head(200, {}, 101).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(head(200, {}, UINT64_MAX).code(), StatusCode::kResourceExhausted);
}

TEST(ContentRange, Forms) {
  EXPECT_EQ(parse_content_range("bytes 0-0/1")->last, 0u);
  EXPECT_EQ(parse_content_range("bytes 7-9/*")->first, 7u);
  for (const char* const bad :
       {"", "bytes", "bytes 1-0/2", "bytes 0-2/2", "bytes -2/5", "bytes 0-/5", "items 0-1/2",
        "bytes 0-1", "bytes 0-1/x", "bytes 0-99999999999999999999/*", "bytes /0-1"}) {
    EXPECT_FALSE(parse_content_range(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace quire::fetch
