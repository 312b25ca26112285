// ImageInput turns the images of a request into media items, and finds their places in its prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/media.h"
#include "core/picture.h"
#include "media/decode/image.h"
#include "media/image_layout.h"
#include "media/image_processor.h"
#include "media/intake/held_bytes.h"

namespace quire {

struct ImageInputOptions {
  ImageLimits limits = {};
  std::string allowed_dir = {};  // for file: URLs; empty means that none are read
  int32_t max_images = 16;       // per prompt
  // Bytes that the pictures of all unfinished requests may take together. What is being decoded
  // comes on top of them (MediaMemory).
  int64_t max_held_bytes = int64_t{1} << 30;
};

// Immutable except for the counts of bytes; any thread may use it.
class ImageInput {
 public:
  // `placeholder` is the token that embeddings replace. A chat template writes it once for each
  // image, unless `text` says otherwise.
  ImageInput(const ImageProcessorSpec& spec, TokenId placeholder, ImageInputOptions options = {},
             PictureText text = {});

  const ImageInputOptions& options() const { return options_; }
  // Returns kInvalidArgument if a prompt may not have so many images.
  Status check_number(int64_t num_images) const;

  // Reads, decodes and prepares one image, which takes milliseconds. Returns the errors of
  // read_image_source() and decode_image(), and kResourceExhausted if other requests hold too many
  // bytes at the moment.
  Result<InputImage> load(std::string_view url) const;
  // Does the same with the bytes of a file.
  Result<InputImage> load_bytes(std::string_view file) const;

  // Replaces the markers in a prompt's text by the images' texts, before tokenization. Returns
  // kInvalidArgument if the number of markers is not that of the images.
  Status write_out(const std::vector<InputImage>& images, std::string& prompt) const;

  // Replaces each placeholder by as many placeholders as its image has embeddings. Returns
  // kInvalidArgument if the number of placeholders is not that of the images' places.
  Result<std::vector<MediaSpan>> place(const std::vector<InputImage>& images,
                                       std::vector<TokenId>& prompt) const;

 private:
  ImageProcessorSpec spec_;
  TokenId placeholder_;
  ImageInputOptions options_;
  PictureText text_;
  MediaMemory memory_;
};

}  // namespace quire
