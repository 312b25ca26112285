// The images of a chat request: read, and put in their places in the prompt.
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

// `input`: may be null where there are no parts. Errors name the part at fault.
ApiResult<ChatImages> load_images(const std::vector<ImagePart>& parts, const ImageInput* input);

// Writes images out in the text of a prompt (ImageInput::write_out).
ApiResult<std::string> write_images_out(const ChatImages& images, const ImageInput* input,
                                        std::string prompt);

// Widens the places of images in the prompt to the tokens that they take.
ApiResult<std::vector<MediaSpan>> place_images(const ChatImages& images, const ImageInput& input,
                                               std::vector<TokenId>& prompt);

}  // namespace quire::server
