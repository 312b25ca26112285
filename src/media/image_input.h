// ImageInput: from the images of a request to media items, and to their places in its prompt.
#pragma once

#include <atomic>
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

namespace quire {

struct ImageInputOptions {
  ImageLimits limits = {};
  std::string allowed_dir = {};  // of file: URLs; empty: none are read
  int32_t max_images = 16;       // of one prompt
  // Of the pictures of all requests that are not done yet.
  int64_t max_held_bytes = int64_t{1} << 30;
};

// Immutable but for the count of bytes; any thread.
class ImageInput {
 public:
  // `placeholder`: the token that embeddings take the place of, which a chat template writes once
  // where an image stands, unless `text` says otherwise.
  ImageInput(const ImageProcessorSpec& spec, TokenId placeholder, ImageInputOptions options = {},
             PictureText text = {});

  const ImageInputOptions& options() const { return options_; }
  // kInvalidArgument: one prompt may not have so many.
  Status check_number(int64_t num_images) const;

  // Reads, decodes and prepares one image: milliseconds. Errors are those of read_image_source()
  // and decode_image(). kResourceExhausted: other requests hold too much at this moment.
  Result<InputImage> load(std::string_view url) const;
  // Does the same with the bytes of a file.
  Result<InputImage> load_bytes(std::string_view file) const;

  // Writes images out in a prompt's text, before it becomes tokens. kInvalidArgument: it has not as
  // many markers as there are images.
  Status write_out(const std::vector<InputImage>& images, std::string& prompt) const;

  // Puts as many placeholders in the place of each as its image has embeddings. kInvalidArgument:
  // the prompt has not as many places as there are images.
  Result<std::vector<MediaSpan>> place(const std::vector<InputImage>& images,
                                       std::vector<TokenId>& prompt) const;

 private:
  Status wrong_number(int64_t num_places, std::string_view what, int64_t num_images) const;

  ImageProcessorSpec spec_;
  TokenId placeholder_;
  ImageInputOptions options_;
  PictureText text_;
  std::shared_ptr<std::atomic<int64_t>> held_bytes_;  // shared with the items' leases
};

}  // namespace quire
