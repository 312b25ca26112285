#include "media/decode/decode_image.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/base64.h"
#include "media/testing/test_images.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

Result<Image> decode(std::string_view file, const ImageLimits& limits = {}) {
  return decode_image(std::as_bytes(std::span(file)), limits);
}

fs::path image_dir() { return test::source_dir() / "tests" / "goldens" / "vision" / "images"; }

// Compares with Pillow's pictures of the same files (tools/make_vision_goldens.py): JPEG within one
// step, the others exactly.
TEST(DecodeImage, AsPillow) {
  const boost::json::value goldens =
      boost::json::parse(test::read_file(image_dir() / "golden.json"));
  int count = 0;
  for (const auto& [name, golden] : goldens.at("decoded").as_object()) {
    SCOPED_TRACE(std::string(name));
    const auto image = decode(test::read_file(image_dir() / std::string(name)));
    ASSERT_TRUE(image.ok()) << image.status().message();
    EXPECT_EQ(image->width, golden.at("width").as_int64());
    EXPECT_EQ(image->height, golden.at("height").as_int64());
    const auto expected = base64_decode(std::string(golden.at("rgb_base64").as_string()));
    ASSERT_TRUE(expected);
    ASSERT_EQ(image->rgb.size(), expected->size());
    const int tolerance = name.ends_with(".jpg") ? 1 : 0;
    int worst = 0;
    for (size_t i = 0; i < expected->size(); ++i) {
      worst =
          std::max(worst, std::abs(int{image->rgb[i]} - int{static_cast<uint8_t>((*expected)[i])}));
    }
    EXPECT_LE(worst, tolerance);
    ++count;
  }
  EXPECT_GE(count, 10);
}

// The memory of a picture is asked for before it is taken, in every format.
TEST(DecodeImage, ReservesWhatAPictureTakes) {
  for (const fs::directory_entry& entry : fs::directory_iterator(image_dir())) {
    const std::string file = test::read_file(entry.path());
    const auto image = decode(file);
    if (!image.ok()) continue;
    int64_t reserved = 0;
    const auto refused = decode_image(std::as_bytes(std::span(file)), {}, [&](int64_t num_bytes) {
      reserved = num_bytes;
      return resource_exhausted("full");
    });
    EXPECT_EQ(refused.status().message(), "full") << entry.path();
    EXPECT_EQ(reserved, std::ssize(image->rgb)) << entry.path();
  }
}

// A prefix of a file is never accepted as the whole file, and never crashes.
TEST(DecodeImage, RefusesFilesThatEndEarly) {
  for (const fs::directory_entry& entry : fs::directory_iterator(image_dir())) {
    if (entry.path().extension() == ".json") continue;
    const std::string file = test::read_file(entry.path());
    // The last bytes of a file only mark its end.
    for (size_t size = 0; size + 16 < file.size(); size += 1 + file.size() / 97)
      EXPECT_FALSE(decode(file.substr(0, size)).ok()) << entry.path() << ": " << size;
  }
}

TEST(DecodeImage, RefusesOtherFormats) {
  for (const char* file : {"", "GIF89a....", "BM....", "<svg xmlns=", "%PDF-1.7", "hello"}) {
    const auto image = decode(file);
    EXPECT_EQ(image.status().code(), StatusCode::kInvalidArgument) << file;
    EXPECT_NE(image.status().message().find("expected JPEG, PNG or WebP"), std::string::npos);
  }
}

// Sizes are refused by the header, before memory is allocated.
TEST(DecodeImage, RefusesLargePictures) {
  for (const auto& [width, height] :
       {std::pair<uint32_t, uint32_t>{65535, 65535}, {65535, 1}, {1, 0x7fffffff}, {16384, 16384}}) {
    const auto image =
        decode(test::png_header(width, height) + test::png_chunk("IDAT", test::deflated("x")));
    EXPECT_EQ(image.status().code(), StatusCode::kTooLarge) << width << " x " << height;
  }
  const std::string file = test::png_of(20, 20, 1, 2, 3);
  EXPECT_TRUE(decode(file, {.max_pixels = 400}).ok());
  EXPECT_EQ(decode(file, {.max_pixels = 399}).status().code(), StatusCode::kTooLarge);
  EXPECT_EQ(decode(file, {.max_side = 19}).status().code(), StatusCode::kTooLarge);
  EXPECT_EQ(decode(file, {.max_bytes = 20}).status().code(), StatusCode::kTooLarge);
  // SOI, SOF0 of 65,535 x 65,535.
  const std::string jpeg(
      "\xff\xd8\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03\x01\x22\x00\x02\x11\x01"
      "\x03\x11\x01\xff\xda",
      23);
  EXPECT_FALSE(decode(jpeg).ok());
}

// Texts and profiles that inflate to gigabytes are not inflated.
TEST(DecodeImage, SkipsBombsBesideThePixels) {
  std::string bomb;
  for (int i = 0; i < 64; ++i) bomb += std::string(1 << 20, '\0');
  const std::string text = std::string("Comment\0\0", 9) + test::deflated(bomb);
  const std::string plain = test::png_of(2, 2, 1, 2, 3);
  const std::string header = test::png_header(2, 2);
  for (const char* chunk : {"zTXt", "iCCP"}) {
    const auto image = decode(header + test::png_chunk(chunk, text) + plain.substr(header.size()));
    ASSERT_TRUE(image.ok()) << chunk << ": " << image.status().message();
    EXPECT_EQ(image->rgb[0], 1);
  }
}

}  // namespace
}  // namespace quire
