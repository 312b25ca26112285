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

// Pictures that a model takes: squares of one size, or such that squares of another size fill.
struct PictureShape {
  int32_t image_size = 0;      // sides; 0: any that cells fill
  int32_t num_embeddings = 0;  // of a picture of that size
  int32_t cell_size = 0;       // sides of a cell, which becomes one embedding
  int32_t max_cells = 0;
  bool rounds_up = false;  // to whole cells
};

// Of one size: the shorter side becomes `shortest_edge`, then the middle is cut out (CLIP, LLaVA
// 1.5). In cells: both sides become the nearest multiples of cell_size, of a picture that is shrunk
// or grown where it has too many pixels or too few (Qwen2-VL); or, where the shape rounds up, the longer
// side becomes `longest_edge` at most, and both the next multiples (Pixtral).
struct ImageProcessorSpec {
  PictureShape shape = {.image_size = 336, .num_embeddings = 576};
  ResizeFilter filter = ResizeFilter::kBicubic;
  int32_t shortest_edge = 336;
  int64_t min_pixels = 0;
  int64_t max_pixels = 0;
  int32_t longest_edge = 0;
};

// `preprocessor`: preprocessor_config.json, or empty, which must agree with the shape.
Result<ImageProcessorSpec> parse_image_processor(std::string_view preprocessor,
                                                 const PictureShape& shape);

// Pure; any thread. kInvalidArgument: one side is more than 200 times the other.
Result<Image> process_image(const Image& image, const ImageProcessorSpec& spec);

// The picture made ready; its key is a digest of its pixels and its size.
std::shared_ptr<MediaItem> make_item(Image image, const ImageProcessorSpec& spec);

}  // namespace quire
