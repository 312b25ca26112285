// A picture as a model wants it: of its size, by the filter that it was trained with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/media.h"
#include "core/picture.h"
#include "media/decode/image.h"
#include "media/resize.h"
#include "media/tiles.h"

namespace quire {

// `shape` and its numbers: of PictureFit::kMiddle the shorter side becomes `shortest_edge`; of kNearest
// a picture is shrunk or grown where it has too many pixels or too few; of kRoundedUp the longer side
// becomes `longest_edge` at most, of kLongestEdge exactly that.
struct ImageProcessorSpec {
  PictureShape shape = {.image_size = 336, .num_embeddings = 576};
  ResizeFilter filter = ResizeFilter::kBicubic;
  int32_t shortest_edge = 336;
  int64_t min_pixels = 0;
  int64_t max_pixels = 0;
  int32_t longest_edge = 0;
  int32_t max_tiles = 12;  // of kNearestRatio
  CropRule crops = {};     // of kStretched
};

// `preprocessor`: preprocessor_config.json, or empty, which must agree with the shape.
Result<ImageProcessorSpec> parse_image_processor(std::string_view preprocessor,
                                                 const PictureShape& shape);

// kInvalidArgument: one side is more than 200 times the other.
Status check_sides(const Image& image);

// One picture of one. Pure; any thread.
Image process_image(const Image& image, const ImageProcessorSpec& spec);

// The picture made ready; its key is a digest of its pixels and its size.
std::shared_ptr<MediaItem> make_item(Image image, const ImageProcessorSpec& spec);

}  // namespace quire
