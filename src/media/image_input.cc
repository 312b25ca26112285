#include "media/image_input.h"

#include <algorithm>
#include <span>
#include <utility>

#include "media/decode/decode_image.h"
#include "media/image_source.h"

namespace quire {
ImageInput::ImageInput(const ImageProcessorSpec& spec, TokenId placeholder,
                       ImageInputOptions options, PictureText text)
    : spec_(spec),
      placeholder_(placeholder),
      options_(std::move(options)),
      text_(std::move(text)),
      memory_("images", options_.max_held_bytes, options_.limits.max_pixels * 3) {}

Status ImageInput::check_number(int64_t num_images) const {
  if (num_images <= options_.max_images) return {};
  return invalid_argument("expected at most {} images (--max-images), got {}", options_.max_images,
                          num_images);
}

Result<InputImage> ImageInput::load(std::string_view url) const {
  QUIRE_ASSIGN_OR_RETURN(const std::string file,
                         read_image_source(url, options_.allowed_dir, options_.limits.max_bytes));
  return load_bytes(file);
}

Result<InputImage> ImageInput::load_bytes(std::string_view file) const {
  std::unique_ptr<HeldBytes> decoded;
  QUIRE_ASSIGN_OR_RETURN(
      const Image image,
      decode_image(std::as_bytes(std::span(file)), options_.limits,
                   [&](int64_t num_bytes) { return memory_.decode(num_bytes, decoded); }));
  const std::shared_ptr<HeldBytes> lease = memory_.lease();
  QUIRE_ASSIGN_OR_RETURN(InputImage input, lay_out_image(image, spec_, text_, lease));
  QUIRE_RETURN_IF_ERROR(memory_.hold(num_bytes(input), *lease));
  return input;
}

Status ImageInput::write_out(const std::vector<InputImage>& images, std::string& prompt) const {
  if (text_.marker.empty()) return {};
  std::string written;
  size_t from = 0, num_places = 0;
  for (size_t at = prompt.find(text_.marker); at != std::string::npos;
       at = prompt.find(text_.marker, from), ++num_places) {
    written.append(prompt, from, at - from);
    from = at + text_.marker.size();
    if (num_places < images.size()) written += images[num_places].text;
  }
  if (num_places != images.size()) {
    return invalid_argument("the prompt has {} places for images ({}), and {} images came",
                            num_places, text_.marker, images.size());
  }
  prompt = written.append(prompt, from);
  return {};
}

Result<std::vector<MediaSpan>> ImageInput::place(const std::vector<InputImage>& images,
                                                 std::vector<TokenId>& prompt) const {
  std::vector<const ImagePlace*> places;
  for (const InputImage& image : images) {
    for (const ImagePlace& place : image.places) places.push_back(&place);
  }
  const auto num_places = std::count(prompt.begin(), prompt.end(), placeholder_);
  if (num_places != std::ssize(places)) {
    return invalid_argument(
        "the prompt has {} places for images (token {}), expected {} for {} images", num_places,
        placeholder_, places.size(), images.size());
  }
  if (spec_.shape.is_source() && places.size() > 1)
    return invalid_argument(
        "images: expected one of a prompt, which all of its tokens look at, got {}", places.size());
  std::vector<MediaSpan> spans;
  std::vector<TokenId> placed;
  for (const TokenId token : prompt) {
    if (token != placeholder_) {
      placed.push_back(token);
      continue;
    }
    const ImagePlace& place = *places[spans.size()];
    const auto begin = static_cast<int32_t>(placed.size());
    if (spec_.shape.is_source()) {
      placed.push_back(placeholder_);
      spans.push_back(MediaSpan::of_source(place.item, begin));
      continue;
    }
    placed.insert(placed.end(), static_cast<size_t>(place.count), placeholder_);
    spans.push_back(
        {.begin = begin, .end = begin + place.count, .item = place.item, .first = place.first});
  }
  prompt = std::move(placed);
  return spans;
}

}  // namespace quire
