#include "media/image_processor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kFileName = "preprocessor_config.json";

// A whole number in (0, 4096], or under one of the keys of an object.
std::optional<int32_t> side_of(const json::value& value, std::string_view key) {
  const json::value* number = &value;
  if (const json::object* object = value.if_object()) {
    number = object->if_contains(key);
    if (number == nullptr) return std::nullopt;
  }
  if (!number->is_int64() || number->get_int64() < 1 || number->get_int64() > 4096)
    return std::nullopt;
  return static_cast<int32_t>(number->get_int64());
}

// The numbers are Pillow's.
Result<ResizeFilter> filter_of(const json::object& object) {
  const json::value* resample = object.if_contains("resample");
  if (resample == nullptr) return ResizeFilter::kBicubic;
  const int64_t number = resample->is_int64() ? resample->get_int64() : -1;
  if (number == 1) return ResizeFilter::kLanczos;
  if (number == 2) return ResizeFilter::kBilinear;
  if (number == 3) return ResizeFilter::kBicubic;
  return unimplemented("{}: resample: expected 1 (lanczos), 2 (bilinear) or 3 (bicubic), got {}",
                       kFileName, number);
}

Result<json::object> parse_object(std::string_view text) {
  json::parse_options options;
  options.max_depth = 32;
  json::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return invalid_argument("{}: not valid JSON: {}", kFileName, error.message());
  if (!value.is_object()) return invalid_argument("{}: expected an object", kFileName);
  json::object object = std::move(value.get_object());
  json::value* inner = object.if_contains("image_processor");
  if (inner == nullptr || !inner->is_object()) return object;
  return json::object(std::move(inner->get_object()));
}

Image crop_middle(const Image& image, int32_t size) {
  Image out{.width = size, .height = size, .rgb = {}};
  out.rgb.resize(static_cast<size_t>(size) * static_cast<size_t>(size) * 3);
  const int32_t left = (image.width - size) / 2, top = (image.height - size) / 2;
  for (int32_t y = 0; y < size; ++y)
    std::memcpy(out.pixel(0, y), image.pixel(left, top + y), static_cast<size_t>(size) * 3);
  return out;
}

std::string digest(const Image& image) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  const int ok =
      EVP_Digest(image.rgb.data(), image.rgb.size(), bytes.data(), &size, EVP_sha256(), nullptr);
  QUIRE_CHECK(ok == 1, "SHA-256 failed");
  return fmt::format("{:02x} {}x{}", fmt::join(bytes.begin(), bytes.begin() + size, ""),
                     image.width, image.height);
}

}  // namespace

Result<ImageProcessorSpec> parse_image_processor(std::string_view preprocessor, int32_t image_size,
                                                 int32_t num_embeddings) {
  ImageProcessorSpec spec{.shortest_edge = image_size,
                          .crop_size = image_size,
                          .filter = ResizeFilter::kBicubic,
                          .num_embeddings = num_embeddings};
  if (preprocessor.empty()) return spec;
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_object(preprocessor));
  QUIRE_ASSIGN_OR_RETURN(spec.filter, filter_of(object));
  if (const json::value* size = object.if_contains("size")) {
    const std::optional<int32_t> edge = side_of(*size, "shortest_edge");
    if (!edge) return unimplemented("{}: size: expected a shortest_edge of 1 to 4096", kFileName);
    spec.shortest_edge = *edge;
  }
  if (const json::value* size = object.if_contains("crop_size")) {
    const std::optional<int32_t> height = side_of(*size, "height"), width = side_of(*size, "width");
    if (height != image_size || width != image_size) {
      return invalid_argument("{}: crop_size: expected {} x {}, as the model takes them", kFileName,
                              image_size, image_size);
    }
  }
  if (spec.shortest_edge < spec.crop_size) {
    return unimplemented("{}: size: expected at least the crop_size {}, got {}", kFileName,
                         spec.crop_size, spec.shortest_edge);
  }
  if (const json::value* pads = object.if_contains("do_pad"); pads != nullptr && pads->is_bool()) {
    if (pads->get_bool()) return unimplemented("{}: do_pad: expected false, got true", kFileName);
  }
  return spec;
}

Result<Image> process_image(const Image& image, const ImageProcessorSpec& spec) {
  const int64_t shorter = std::min(image.width, image.height);
  const int64_t longer = std::max(image.width, image.height);
  // It would become a line of millions of pixels, of which the middle is used.
  constexpr int64_t kMaxRatio = 200;
  if (longer > shorter * kMaxRatio) {
    return invalid_argument(
        "image: expected sides of which none is more than {} times the other, "
        "got {} x {}",
        kMaxRatio, image.width, image.height);
  }
  const auto grown = static_cast<int32_t>(spec.shortest_edge * longer / shorter);
  const bool is_wide = image.width > image.height;
  const Image resized = resize(image, is_wide ? grown : spec.shortest_edge,
                               is_wide ? spec.shortest_edge : grown, spec.filter);
  return crop_middle(resized, spec.crop_size);
}

std::shared_ptr<MediaItem> make_item(Image image, const ImageProcessorSpec& spec) {
  auto item = std::make_shared<MediaItem>();
  item->key = digest(image);
  item->num_embeddings = spec.num_embeddings;
  item->width = image.width;
  item->height = image.height;
  item->rgb = std::move(image.rgb);
  return item;
}

}  // namespace quire
