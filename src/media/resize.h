// resize() changes a picture's size as the programs do that models were trained with: separable
// filters, widened where the picture shrinks so that every pixel counts ("antialias"), first along
// rows, then along columns, rounded to 8 bits after each. Results are within one step of Pillow and
// torchvision.
#pragma once

#include <cstdint>

#include "media/decode/image.h"

namespace quire {

enum class ResizeFilter : uint8_t {
  kBilinear,  // a triangle of width 1
  kBicubic,   // Keys' cubic with a = -0.5, width 2
  kLanczos,   // sinc windowed by sinc, width 3
};

// `width` and `height` are at least 1.
Image resize(const Image& image, int32_t width, int32_t height, ResizeFilter filter);

}  // namespace quire
