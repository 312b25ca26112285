#include "media/testing/test_images.h"

#include <zlib.h>

#include "base/check.h"

namespace quire::test {
namespace {

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

}  // namespace

std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  return big_endian(static_cast<uint32_t>(data.size())) + body + big_endian(crc);
}

std::string png_header(uint32_t width, uint32_t height) {
  const std::string rgb8("\x08\x02\x00\x00\x00", 5);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big_endian(width) + big_endian(height) + rgb8);
}

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int result =
      compress(reinterpret_cast<Bytef*>(out.data()), &size,
               reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()));
  QUIRE_CHECK(result == Z_OK, "zlib: {}", result);
  out.resize(size);
  return out;
}

std::string png_of(int32_t width, int32_t height, uint8_t red, uint8_t green, uint8_t blue) {
  std::string rows;
  for (int32_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    for (int32_t x = 0; x < width; ++x) {
      rows += static_cast<char>(red);
      rows += static_cast<char>(green);
      rows += static_cast<char>(blue);
    }
  }
  return png_header(static_cast<uint32_t>(width), static_cast<uint32_t>(height)) +
         png_chunk("IDAT", deflated(rows)) + png_chunk("IEND", "");
}

}  // namespace quire::test
