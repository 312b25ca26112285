// This file decodes WebP with libwebp: one picture, no animations.
#include <webp/decode.h>

#include "media/decode/decoders.h"

namespace quire {

Result<Image> decode_webp(std::span<const std::byte> file, const ImageLimits& limits,
                          const ReserveBytes& reserve) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(file.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes, file.size(), &features) != VP8_STATUS_OK)
    return data_loss("WebP: the header is damaged");
  if (features.has_animation != 0)
    return invalid_argument("WebP: expected one picture, got an animation");
  QUIRE_RETURN_IF_ERROR(check_image_size("WebP", features.width, features.height, limits));
  QUIRE_ASSIGN_OR_RETURN(Image image, make_image(features.width, features.height, reserve));
  if (WebPDecodeRGBInto(bytes, file.size(), image.rgb.data(), image.rgb.size(),
                        features.width * 3) == nullptr) {
    return data_loss("WebP: the picture is damaged or ends early");
  }
  return image;
}

}  // namespace quire
