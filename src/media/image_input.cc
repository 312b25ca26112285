#include "media/image_input.h"

#include <algorithm>
#include <utility>

#include "media/decode/decode_image.h"
#include "media/image_source.h"

namespace quire {

ImageInput::ImageInput(const ImageProcessorSpec& spec, TokenId placeholder,
                       ImageInputOptions options)
    : spec_(spec),
      placeholder_(placeholder),
      options_(std::move(options)),
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

Result<std::vector<MediaSpan>> ImageInput::place(const MediaItems& items,
                                                 std::vector<TokenId>& prompt) const {
  const auto num_places = std::count(prompt.begin(), prompt.end(), placeholder_);
  if (num_places != std::ssize(items)) {
    return invalid_argument("the prompt has {} places for images (token {}), and {} images came",
                            num_places, placeholder_, items.size());
  }
  std::vector<MediaSpan> spans;
  std::vector<TokenId> placed;
  auto next = items.begin();
  for (const TokenId token : prompt) {
    if (token != placeholder_) {
      placed.push_back(token);
      continue;
    }
    const std::shared_ptr<const MediaItem>& item = *next++;
    const auto begin = static_cast<int32_t>(placed.size());
    placed.insert(placed.end(), static_cast<size_t>(item->num_embeddings), placeholder_);
    spans.push_back({.begin = begin, .end = static_cast<int32_t>(placed.size()), .item = item});
  }
  prompt = std::move(placed);
  return spans;
}

}  // namespace quire
