#include "media/decode/decode_image.h"

#include <array>
#include <cstring>
#include <string_view>

#include "media/decode/decoders.h"

namespace quire {
namespace {

bool starts_with(std::span<const std::byte> file, std::string_view magic, size_t at = 0) {
  return file.size() >= at + magic.size() &&
         std::memcmp(file.data() + at, magic.data(), magic.size()) == 0;
}

struct Refused {
  std::string_view magic;
  std::string_view name;
};
constexpr std::array<Refused, 8> kRefused = {{{"GIF8", "GIF"},
                                              {"BM", "BMP"},
                                              {std::string_view("II*\0", 4), "TIFF"},
                                              {std::string_view("MM\0*", 4), "TIFF"},
                                              {"<svg", "SVG"},
                                              {"<?xml", "XML"},
                                              {"%PDF", "PDF"},
                                              {"<!DOCTYPE", "HTML"}}};

std::string_view kind_of(std::span<const std::byte> file) {
  for (const Refused& refused : kRefused) {
    if (starts_with(file, refused.magic)) return refused.name;
  }
  return file.empty() ? "nothing" : "something else";
}

}  // namespace

Status check_image_size(std::string_view format, int64_t width, int64_t height,
                        const ImageLimits& limits) {
  if (width < 1 || height < 1)
    return data_loss("{}: expected a picture, got one of {} x {}", format, width, height);
  if (width > limits.max_side || height > limits.max_side) {
    return too_large("{}: expected sides of at most {} pixels, got {} x {}", format,
                     limits.max_side, width, height);
  }
  if (width * height > limits.max_pixels) {
    return too_large("{}: expected at most {} pixels, got {} x {}", format, limits.max_pixels,
                     width, height);
  }
  return {};
}

Image make_image(int64_t width, int64_t height) {
  return {.width = static_cast<int32_t>(width),
          .height = static_cast<int32_t>(height),
          .rgb = std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
}

Result<Image> decode_image(std::span<const std::byte> file, const ImageLimits& limits) {
  if (static_cast<int64_t>(file.size()) > limits.max_bytes) {
    return too_large("image: expected at most {} bytes, got {}", limits.max_bytes, file.size());
  }
  if (starts_with(file, "\xff\xd8\xff")) return decode_jpeg(file, limits);
  if (starts_with(file, "\x89PNG\r\n\x1a\n")) return decode_png(file, limits);
  if (starts_with(file, "RIFF") && starts_with(file, "WEBP", 8)) return decode_webp(file, limits);
  return invalid_argument("image: expected JPEG, PNG or WebP, got {}", kind_of(file));
}

}  // namespace quire
