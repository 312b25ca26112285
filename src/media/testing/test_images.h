// These helpers make small image files for tests, and hostile ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire::test {

// Returns a chunk of a PNG file, with its checksum.
std::string png_chunk(std::string_view type, std::string_view data);
std::string png_header(uint32_t width, uint32_t height);  // signature and IHDR
// Returns a PNG file of one color.
std::string png_of(int32_t width, int32_t height, uint8_t red, uint8_t green, uint8_t blue);
// Returns `bytes` compressed by zlib.
std::string deflated(std::string_view bytes);

}  // namespace quire::test
