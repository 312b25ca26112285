// These functions give a picture the size that a model expects, with the filter that it was trained
// with.
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

// `shape` chooses which of the numbers apply. With PictureFit::kMiddle the shorter side becomes
// `shortest_edge`; with kNearest a picture with too few or too many pixels is scaled; with
// kRoundedUp the longer side becomes `longest_edge` at most, with kLongestEdge exactly that.
struct ImageProcessorSpec {
  PictureShape shape = {.image_size = 336, .num_embeddings = 576};
  ResizeFilter filter = ResizeFilter::kBicubic;
  int32_t shortest_edge = 336;
  int64_t min_pixels = 0;
  int64_t max_pixels = 0;
  int32_t longest_edge = 0;
  int32_t max_tiles = 12;  // for kNearestRatio
  CropRule crops = {};     // for kStretched
};

// `preprocessor` is preprocessor_config.json, or empty. It must agree with the shape.
Result<ImageProcessorSpec> parse_image_processor(std::string_view preprocessor,
                                                 const PictureShape& shape);

// Returns kInvalidArgument if one side is more than 200 times the other.
Status check_sides(const Image& image);

// Returns one picture for a picture that is not cut into tiles. It is a pure function that any
// thread may call.
Image process_image(const Image& image, const ImageProcessorSpec& spec);

// Makes an item of a processed picture. Its key is a digest of the pixels and the size.
std::shared_ptr<MediaItem> make_item(Image image, const ImageProcessorSpec& spec);

}  // namespace quire
