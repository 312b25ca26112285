// EXIF data are a small TIFF file: a byte order, then a list of 12-byte entries.
#include <cstring>
#include <utility>
#include <vector>

#include "media/decode/decoders.h"

namespace quire {
namespace {

class TiffReader {
 public:
  TiffReader(std::span<const std::byte> bytes, bool is_big) : bytes_(bytes), is_big_(is_big) {}

  uint32_t read(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      const auto byte = static_cast<uint32_t>(bytes_[at + (is_big_ ? i : size - 1 - i)]);
      value = value << 8 | byte;
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool is_big_;
};

}  // namespace

int read_orientation(std::span<const std::byte> segment) {
  constexpr size_t kHeader = 6;  // "Exif", two zeros
  if (segment.size() < kHeader + 8 || std::memcmp(segment.data(), "Exif\0\0", kHeader) != 0)
    return 1;
  const std::span<const std::byte> tiff = segment.subspan(kHeader);
  const bool is_big = tiff[0] == std::byte{'M'};
  const TiffReader reader(tiff, is_big);
  constexpr uint32_t kOrientation = 0x0112;
  const size_t list = reader.read(4, 4);
  const uint32_t count = reader.read(list, 2);
  for (uint32_t i = 0; i < count; ++i) {
    const size_t entry = list + 2 + size_t{i} * 12;
    if (entry >= tiff.size()) break;
    if (reader.read(entry, 2) != kOrientation) continue;
    const uint32_t value = reader.read(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image turn_upright(Image image, int orientation) {
  if (orientation <= 1) return image;
  const bool swaps = orientation >= 5;
  Image out{.width = swaps ? image.height : image.width,
            .height = swaps ? image.width : image.height,
            .rgb = std::vector<uint8_t>(image.rgb.size())};
  const int32_t right = image.width - 1, bottom = image.height - 1;
  for (int32_t y = 0; y < out.height; ++y) {
    for (int32_t x = 0; x < out.width; ++x) {
      int32_t from_x = swaps ? y : x, from_y = swaps ? x : y;
      if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        from_x = right - from_x;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        from_y = bottom - from_y;
      std::memcpy(out.pixel(x, y), image.pixel(from_x, from_y), 3);
    }
  }
  return out;
}

}  // namespace quire
