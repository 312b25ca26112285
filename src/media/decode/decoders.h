// The decoders behind decode_image(). Internal to media/decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "media/decode/image.h"

namespace quire {

Result<Image> decode_jpeg(std::span<const std::byte> file, const ImageLimits& limits);
Result<Image> decode_png(std::span<const std::byte> file, const ImageLimits& limits);
Result<Image> decode_webp(std::span<const std::byte> file, const ImageLimits& limits);

// Whether a picture of this size may be allocated.
Status check_image_size(std::string_view format, int64_t width, int64_t height,
                        const ImageLimits& limits);
Image make_image(int64_t width, int64_t height);

// The orientation, 1 to 8, that EXIF data (an APP1 segment of JPEG, without its length) ask for; 1
// where they do not, or are not what they should be.
int read_orientation(std::span<const std::byte> segment);
// The picture upright, given its orientation.
Image turn_upright(Image image, int orientation);

}  // namespace quire
