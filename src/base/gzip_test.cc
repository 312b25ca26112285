#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "base/text_fields.h"

namespace quire {
namespace {

std::vector<std::byte> packed(std::string text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::vector<std::byte> bytes(deflateBound(&stream, text.size()) + 64);
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

std::string squares() {
  std::string text;
  for (int64_t i = 0; i < 50'000; ++i) text += std::to_string(i * i) + ",";
  return text;
}

TEST(Gzip, GivesBackWhatWasPacked) {
  const std::string text = squares();
  for (const std::string& each : {std::string(), std::string("a"), text}) {
    EXPECT_EQ(gunzip(packed(each), text.size()).value(), each);
  }
}

TEST(Gzip, RefusesWhatIsCutDamagedOrTooLarge) {
  const std::string text = squares();
  std::vector<std::byte> bytes = packed(text);
  EXPECT_EQ(gunzip(bytes, text.size() - 1).status().code(), StatusCode::kTooLarge);
  std::vector<std::byte> cut(bytes.begin(), bytes.end() - 9);
  EXPECT_EQ(gunzip(cut, text.size()).status().code(), StatusCode::kDataLoss);
  bytes[bytes.size() / 2] ^= std::byte{0x55};
  EXPECT_FALSE(gunzip(bytes, text.size()).ok());
  EXPECT_FALSE(gunzip({}, 10).ok());
}

}  // namespace
}  // namespace quire
