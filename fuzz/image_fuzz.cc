// The input is an image file: JPEG, PNG or WebP, or what claims to be one.
#include <cstddef>
#include <cstdint>
#include <span>

#include "media/decode/decode_image.h"
#include "media/image_processor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const quire::ImageLimits limits{.max_bytes = 1 << 16, .max_pixels = 1 << 16, .max_side = 1 << 10};
  const auto image = quire::decode_image(std::as_bytes(std::span(data, size)), limits);
  if (!image.ok()) return 0;
  (void)quire::process_image(*image,
                             {.shape = {.image_size = 8, .num_embeddings = 1}, .shortest_edge = 8});
  (void)quire::process_image(
      *image, {.shape = {.cell_size = 4, .max_cells = 64}, .min_pixels = 64, .max_pixels = 1024});
  return 0;
}
