// A picture in memory, and the bounds that pictures of clients must keep to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

// An Image has 8 bits per channel: red, green, blue, row by row from the top.
struct Image {
  int32_t width = 0;
  int32_t height = 0;
  std::vector<uint8_t> rgb;

  uint8_t* pixel(int32_t x, int32_t y) { return &rgb[offset(x, y)]; }
  const uint8_t* pixel(int32_t x, int32_t y) const { return &rgb[offset(x, y)]; }

 private:
  size_t offset(int32_t x, int32_t y) const {
    return (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3;
  }
};

// ImageLimits are checked against a file's header before memory for its pixels is allocated.
struct ImageLimits {
  int64_t max_bytes = int64_t{20} << 20;  // size of the file
  int64_t max_pixels = 25'000'000;
  int32_t max_side = 16384;
};

}  // namespace quire
