#include "server/media/chat_images.h"

namespace quire::server {
namespace {

// An error about an image is a mistake in the request, unless the server has no room.
ApiError image_error(const Status& status, const std::string& where) {
  const bool is_bad =
      status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound;
  ApiError error = is_bad ? api_error(400, status.message()) : from_status(status);
  error.param = where;
  return error;
}

}  // namespace

ApiResult<ChatImages> load_images(const std::vector<ImagePart>& parts, const ImageInput* input) {
  ChatImages loaded;
  if (parts.empty()) return loaded;
  if (const Status status = input->check_number(std::ssize(parts)); !status.ok())
    return field_error("messages", status.message());
  for (const ImagePart& part : parts) {
    Result<InputImage> image = input->load(part.url);
    if (!image.ok()) return image_error(image.status(), part.where);
    loaded.push_back(std::move(image).value());
  }
  return loaded;
}

ApiResult<std::string> write_images_out(const ChatImages& images, const ImageInput* input,
                                        std::string prompt) {
  if (input == nullptr) return prompt;
  const Status status = input->write_out(images, prompt);
  if (!status.ok()) return field_error("messages", status.message());
  return prompt;
}

ApiResult<std::vector<MediaSpan>> place_images(const ChatImages& images, const ImageInput& input,
                                               std::vector<TokenId>& prompt) {
  Result<std::vector<MediaSpan>> media = input.place(images, prompt);
  if (!media.ok()) return field_error("messages", media.status().message());
  return std::move(media).value();
}

}  // namespace quire::server
