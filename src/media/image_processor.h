// A picture as a model wants it: of its size, by the filter that it was trained with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/media.h"
#include "media/decode/image.h"
#include "media/resize.h"

namespace quire {

// The shorter side becomes `shortest_edge`, then the middle is cut out (CLIP, LLaVA 1.5).
struct ImageProcessorSpec {
  int32_t shortest_edge = 336;
  int32_t crop_size = 336;
  ResizeFilter filter = ResizeFilter::kBicubic;
  int32_t num_embeddings = 576;  // that the model makes of a picture
};

// `preprocessor`: preprocessor_config.json, or empty. `image_size`: sides of the picture that the
// model takes, which the file must agree with.
Result<ImageProcessorSpec> parse_image_processor(std::string_view preprocessor, int32_t image_size,
                                                 int32_t num_embeddings);

// Pure; any thread. kInvalidArgument: one side is more than 200 times the other.
Result<Image> process_image(const Image& image, const ImageProcessorSpec& spec);

// The picture made ready; its key is a digest of its pixels and its size.
std::shared_ptr<MediaItem> make_item(Image image, const ImageProcessorSpec& spec);

}  // namespace quire
