// From a picture to the items that the model's encoder takes, and to what stands for it in a prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/media.h"
#include "core/picture.h"
#include "media/decode/image.h"
#include "media/image_processor.h"

namespace quire {

// Embeddings [first, first + count) of an item, which take the place of one placeholder.
struct ImagePlace {
  std::shared_ptr<const MediaItem> item;
  int32_t first = 0;
  int32_t count = 0;
};

struct InputImage {
  std::string text;                // what the marker becomes, if there is one (PictureText)
  std::vector<ImagePlace> places;  // one for each placeholder in it
};

// `lease`: of each of the items. Pure; any thread. Errors are those of process_image().
Result<InputImage> lay_out_image(const Image& image, const ImageProcessorSpec& spec,
                                 const PictureText& text,
                                 const std::shared_ptr<const void>& lease = {});

// Of the pictures of its items, each counted once.
int64_t num_bytes(const InputImage& image);

}  // namespace quire
