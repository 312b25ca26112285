// The input is an image file: JPEG, PNG or WebP, possibly malformed.
#include <cstddef>
#include <cstdint>
#include <span>

#include "media/decode/decode_image.h"
#include "media/image_layout.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const quire::ImageLimits limits{.max_bytes = 1 << 16, .max_pixels = 1 << 16, .max_side = 1 << 10};
  const auto image = quire::decode_image(std::as_bytes(std::span(data, size)), limits);
  if (!image.ok()) return 0;
  using enum quire::PictureFit;
  const quire::ImageProcessorSpec specs[] = {
      {.shape = {.image_size = 8, .num_embeddings = 1}, .shortest_edge = 8},
      {.shape = {.fit = kNearest, .cell_size = 4, .max_cells = 64},
       .min_pixels = 64,
       .max_pixels = 1024},
      {.shape = {.fit = kBestGrid,
                 .image_size = 8,
                 .num_embeddings = 4,
                 .cell_size = 4,
                 .grids = {{1, 2}, {2, 1}, {2, 2}}}},
      {.shape = {.fit = kNearestRatio, .image_size = 8, .num_embeddings = 4, .cell_size = 4}},
      {.shape = {.fit = kLongestEdge, .image_size = 8, .num_embeddings = 4, .cell_size = 4},
       .longest_edge = 24}};
  for (const quire::ImageProcessorSpec& spec : specs) (void)quire::lay_out_image(*image, spec, {});
  return 0;
}
