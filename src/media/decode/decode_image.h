// decode_image(): a JPEG, PNG or WebP file to pixels, by the libraries that everybody uses, under
// bounds that keep a hostile file from taking more memory or time than an honest one.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "media/decode/image.h"

namespace quire {

// Turns the picture upright where its EXIF data ask for it (JPEG); transparency is dropped, as most
// models' own programs do. kTooLarge: the file or its picture is over a limit. kInvalidArgument:
// neither JPEG, PNG nor WebP, or an animation. kDataLoss: the file is damaged or ends early.
Result<Image> decode_image(std::span<const std::byte> file, const ImageLimits& limits);

}  // namespace quire
