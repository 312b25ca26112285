// These are the decoders behind decode_image(). They are internal to media/decode.
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

// Returns an error if a picture of this size exceeds the limits.
Status check_image_size(std::string_view format, int64_t width, int64_t height,
                        const ImageLimits& limits);
Image make_image(int64_t width, int64_t height);

// Returns the orientation, 1 to 8, in EXIF data (an APP1 segment of JPEG, without its length); 1 if
// they contain none or are malformed.
int read_orientation(std::span<const std::byte> segment);
// Returns the picture, which has this orientation, turned upright.
Image turn_upright(Image image, int orientation);

}  // namespace quire
