// These functions load the images of a chat request and put them into the prompt.
#pragma once

#include <string>
#include <vector>

#include "core/media.h"
#include "media/image_input.h"
#include "server/http/api_error.h"

namespace quire::server {

struct ImagePart {
  std::string url;
  std::string where;  // the part's field, for errors
};

using ChatImages = std::vector<InputImage>;

// `input` may be null when there are no parts. Errors name the part that is wrong.
ApiResult<ChatImages> load_images(const std::vector<ImagePart>& parts, const ImageInput* input);

// Writes the images into the text of a prompt (ImageInput::write_out).
ApiResult<std::string> write_images_out(const ChatImages& images, const ImageInput* input,
                                        std::string prompt);

// Replaces each image's place in the prompt by as many tokens as the image takes, and returns the
// spans.
ApiResult<std::vector<MediaSpan>> place_images(const ChatImages& images, const ImageInput& input,
                                               std::vector<TokenId>& prompt);

}  // namespace quire::server
