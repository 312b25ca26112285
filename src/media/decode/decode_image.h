// decode_image() decodes a JPEG, PNG or WebP file with the usual libraries, under limits that keep
// a hostile file from taking more memory or time than an honest one.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "media/decode/image.h"
#include "media/intake/held_bytes.h"

namespace quire {

// Decodes a file. Turns the picture upright if its EXIF data ask for it (JPEG); drops transparency,
// as most models' own preprocessing does. Returns kTooLarge if the file or its picture exceeds a
// limit, kInvalidArgument for another format or an animation, and kDataLoss if the file is damaged
// or ends early; and the error of `reserve`.
Result<Image> decode_image(std::span<const std::byte> file, const ImageLimits& limits,
                           const ReserveBytes& reserve = {});

}  // namespace quire
