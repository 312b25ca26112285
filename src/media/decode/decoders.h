// These are the decoders behind decode_image(). They are internal to media/decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "media/decode/image.h"
#include "media/intake/held_bytes.h"

namespace quire {

Result<Image> decode_jpeg(std::span<const std::byte> file, const ImageLimits& limits,
                          const ReserveBytes& reserve);
Result<Image> decode_png(std::span<const std::byte> file, const ImageLimits& limits,
                         const ReserveBytes& reserve);
Result<Image> decode_webp(std::span<const std::byte> file, const ImageLimits& limits,
                          const ReserveBytes& reserve);

// Returns an error if a picture of this size exceeds the limits.
Status check_image_size(std::string_view format, int64_t width, int64_t height,
                        const ImageLimits& limits);
// Allocates a picture. Returns the error of `reserve`, if there is one.
Result<Image> make_image(int64_t width, int64_t height, const ReserveBytes& reserve);

// Returns the orientation, 1 to 8, in EXIF data (an APP1 segment of JPEG, without its length); 1 if
// they contain none or are malformed.
int read_orientation(std::span<const std::byte> segment);
// Returns the picture, which has this orientation, turned upright.
Image turn_upright(Image image, int orientation);

}  // namespace quire
