// lay_out_image() turns a picture into the items that the model's encoder takes, and into the text
// and placeholders that stand for it in a prompt.
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

// An ImagePlace is embeddings [first, first + count) of an item, which replace one placeholder.
struct ImagePlace {
  std::shared_ptr<const MediaItem> item;
  int32_t first = 0;
  int32_t count = 0;
};

struct InputImage {
  std::string text;                // replaces the marker, if there is one (PictureText)
  std::vector<ImagePlace> places;  // one for each placeholder in it
};

// Lays out one image; each of its items holds `lease`. Returns the error of check_sides(). It is a
// pure function that any thread may call.
Result<InputImage> lay_out_image(const Image& image, const ImageProcessorSpec& spec,
                                 const PictureText& text,
                                 const std::shared_ptr<const void>& lease = {});

// Returns the bytes of the pictures of all items; an item in several places counts once.
int64_t num_bytes(const InputImage& image);

}  // namespace quire
