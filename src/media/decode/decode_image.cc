#include "media/decode/decode_image.h"

#include <array>
#include <string_view>

#include "media/decode/decoders.h"
#include "media/intake/file_magic.h"

namespace quire {
namespace {

constexpr std::array<FileMagic, 8> kOtherPictures = {{{"GIF8", "GIF"},
                                                      {"BM", "BMP"},
                                                      {std::string_view("II*\0", 4), "TIFF"},
                                                      {std::string_view("MM\0*", 4), "TIFF"},
                                                      {"<svg", "SVG"},
                                                      {"<?xml", "XML"},
                                                      {"%PDF", "PDF"},
                                                      {"<!DOCTYPE", "HTML"}}};

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

Result<Image> make_image(int64_t width, int64_t height, const ReserveBytes& reserve) {
  const int64_t num_bytes = width * height * 3;
  if (reserve) QUIRE_RETURN_IF_ERROR(reserve(num_bytes));
  return Image{.width = static_cast<int32_t>(width),
               .height = static_cast<int32_t>(height),
               .rgb = std::vector<uint8_t>(static_cast<size_t>(num_bytes))};
}

Result<Image> decode_image(std::span<const std::byte> file, const ImageLimits& limits,
                           const ReserveBytes& reserve) {
  if (static_cast<int64_t>(file.size()) > limits.max_bytes) {
    return too_large("image: expected at most {} bytes, got {}", limits.max_bytes, file.size());
  }
  if (starts_with(file, "\xff\xd8\xff")) return decode_jpeg(file, limits, reserve);
  if (starts_with(file, "\x89PNG\r\n\x1a\n")) return decode_png(file, limits, reserve);
  if (starts_with(file, "RIFF") && starts_with(file, "WEBP", 8))
    return decode_webp(file, limits, reserve);
  return invalid_argument("image: expected JPEG, PNG or WebP, got {}",
                          kind_of(file, kOtherPictures));
}

}  // namespace quire
