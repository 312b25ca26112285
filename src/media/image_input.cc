#include "media/image_input.h"

#include <fmt/format.h>

#include <algorithm>
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
      held_bytes_(std::make_shared<std::atomic<int64_t>>(0)) {}

Result<std::shared_ptr<const MediaItem>> ImageInput::load(std::string_view url) const {
  QUIRE_ASSIGN_OR_RETURN(const std::string file,
                         read_image_source(url, options_.allowed_dir, options_.limits.max_bytes));
  QUIRE_ASSIGN_OR_RETURN(const Image image,
                         decode_image(std::as_bytes(std::span(file)), options_.limits));
  QUIRE_ASSIGN_OR_RETURN(Image ready, process_image(image, spec_));
  std::shared_ptr<MediaItem> item = make_item(std::move(ready), spec_);
  const auto bytes = static_cast<int64_t>(item->rgb.size());
  const int64_t held = held_bytes_->fetch_add(bytes) + bytes;
  item->lease = std::shared_ptr<const void>(
      nullptr, [count = held_bytes_, bytes](const void*) { count->fetch_sub(bytes); });
  if (held > options_.max_held_bytes) {
    return resource_exhausted("images of requests take {} bytes, at most {} may be held at once",
                              held, options_.max_held_bytes);
  }
  return std::shared_ptr<const MediaItem>(std::move(item));
}

Status ImageInput::wrong_number(int64_t num_places, std::string_view what,
                                int64_t num_images) const {
  return invalid_argument("the prompt has {} places for images ({}), and {} images came",
                          num_places, what, num_images);
}

Status ImageInput::write_out(const MediaItems& items, std::string& prompt) const {
  if (text_.marker.empty()) return {};
  std::string written;
  size_t from = 0, num_places = 0;
  for (size_t at = prompt.find(text_.marker); at != std::string::npos;
       at = prompt.find(text_.marker, from), ++num_places) {
    written.append(prompt, from, at - from);
    from = at + text_.marker.size();
    if (num_places >= items.size()) continue;
    for (int32_t row = 0; row < num_rows(*items[num_places]); ++row) {
      if (row > 0) written += text_.between;
      written += text_.row;
    }
    written += text_.after;
  }
  if (num_places != items.size())
    return wrong_number(static_cast<int64_t>(num_places), text_.marker, std::ssize(items));
  prompt = written.append(prompt, from);
  return {};
}

Result<std::vector<MediaSpan>> ImageInput::place(const MediaItems& items,
                                                 std::vector<TokenId>& prompt) const {
  std::vector<MediaSpan> places;
  for (const std::shared_ptr<const MediaItem>& item : items) {
    const int32_t rows = num_rows(*item), per_row = item->num_embeddings / rows;
    for (int32_t row = 0; row < rows; ++row)
      places.push_back({.begin = 0, .end = per_row, .item = item, .first = row * per_row});
  }
  const auto num_places = std::count(prompt.begin(), prompt.end(), placeholder_);
  if (num_places != std::ssize(places)) {
    return wrong_number(num_places, fmt::format("token {}", placeholder_), std::ssize(items));
  }
  std::vector<TokenId> placed;
  auto next = places.begin();
  for (const TokenId token : prompt) {
    if (token != placeholder_) {
      placed.push_back(token);
      continue;
    }
    MediaSpan& span = *next++;
    span.begin = static_cast<int32_t>(placed.size());
    placed.insert(placed.end(), static_cast<size_t>(span.end), placeholder_);
    span.end = static_cast<int32_t>(placed.size());
  }
  prompt = std::move(placed);
  return places;
}

}  // namespace quire
