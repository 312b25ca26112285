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

// Returns a whole number in (0, 4096], or one under `key` if the value is an object.
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

// Returns the filter of a number in Pillow's numbering.
Result<ResizeFilter> filter_of(const json::object& object, PictureFit fit) {
  const json::value* resample = object.if_contains("resample");
  if (resample == nullptr)
    return fit == PictureFit::kStretched || fit == PictureFit::kBestCanvas ? ResizeFilter::kBilinear
           : fit == PictureFit::kLongestEdge                               ? ResizeFilter::kLanczos
                                                                           : ResizeFilter::kBicubic;
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

// Reads the greatest length of a side, for shapes that round up.
Status read_longest_edge(const json::object& object, ImageProcessorSpec& spec) {
  spec.longest_edge = 1024;
  const json::value* size = object.if_contains("size");
  if (size == nullptr) return {};
  const std::optional<int32_t> edge =
      size->is_object() ? side_of(*size, "longest_edge") : std::nullopt;
  if (!edge) return invalid_argument("{}: size: expected a longest_edge of 1 to 4096", kFileName);
  spec.longest_edge = *edge;
  return {};
}

// Reads how many pixels a picture in cells may have.
Status read_pixel_bounds(const json::object& object, ImageProcessorSpec& spec) {
  const int64_t cell = int64_t{spec.shape.cell_size} * spec.shape.cell_size;
  spec.min_pixels = int64_t{56} * 56;
  spec.max_pixels = int64_t{28} * 28 * 1280;
  const auto read = [&](const json::object& from, std::string_view key, int64_t& out) {
    const json::value* number = from.if_contains(key);
    if (number == nullptr || number->is_null()) return Status();
    if (!number->is_int64() || number->get_int64() < 1 || number->get_int64() > int64_t{1} << 30) {
      return invalid_argument("{}: {}: expected a number of pixels from 1 to 2^30", kFileName, key);
    }
    out = number->get_int64();
    return Status();
  };
  QUIRE_RETURN_IF_ERROR(read(object, "min_pixels", spec.min_pixels));
  QUIRE_RETURN_IF_ERROR(read(object, "max_pixels", spec.max_pixels));
  const json::value* size = object.if_contains("size");
  if (size != nullptr && size->is_object()) {
    QUIRE_RETURN_IF_ERROR(read(size->get_object(), "shortest_edge", spec.min_pixels));
    QUIRE_RETURN_IF_ERROR(read(size->get_object(), "longest_edge", spec.max_pixels));
  }
  spec.max_pixels = std::max(cell, std::min(spec.max_pixels, spec.shape.max_cells * cell));
  spec.min_pixels = std::min(spec.min_pixels, spec.max_pixels);
  return {};
}

Status read_stretched(const json::object& object, const ImageProcessorSpec& spec) {
  const int32_t side = spec.shape.image_size;
  if (const json::value* size = object.if_contains("size")) {
    if (side_of(*size, "height") != side || side_of(*size, "width") != side) {
      return invalid_argument("{}: size: expected {} x {}, as the model takes them", kFileName,
                              side, side);
    }
  }
  return {};
}

bool is_true(const json::object& object, std::string_view key, bool default_value) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() ? value->get_bool() : default_value;
}

// Reads Gemma 3's pan and scan: as many crops as the file and the limit of tokens allow.
Status read_crops(const json::object& object, ImageProcessorSpec& spec) {
  constexpr int32_t kMostCrops = 16;
  QUIRE_RETURN_IF_ERROR(read_stretched(object, spec));
  if (!is_true(object, "do_pan_and_scan", false)) return {};
  CropRule rule{.max_crops = 4};
  const auto read = [&](std::string_view key, int32_t most, int32_t& out) {
    const json::value* const value = object.if_contains(key);
    if (value == nullptr || value->is_null()) return Status();
    const std::optional<int32_t> number = side_of(*value, "");
    if (!number || *number > most)
      return invalid_argument("{}: {}: expected 1 to {}", kFileName, key, most);
    out = *number;
    return Status();
  };
  QUIRE_RETURN_IF_ERROR(read("pan_and_scan_max_num_crops", kMostCrops, rule.max_crops));
  QUIRE_RETURN_IF_ERROR(read("pan_and_scan_min_crop_size", 4096, rule.min_size));
  const json::value* const ratio = object.if_contains("pan_and_scan_min_ratio_to_activate");
  if (ratio != nullptr && !ratio->is_null()) {
    json::error_code error;
    rule.min_ratio = ratio->to_number<double>(error);
    if (error || !(rule.min_ratio >= 1.0))
      return invalid_argument("{}: pan_and_scan_min_ratio_to_activate: expected a number from 1 on",
                              kFileName);
  }
  rule.max_crops = std::max(0, spec.shape.max_tiles(rule.max_crops));
  spec.crops = rule;
  return {};
}

// Reads the number of tiles. If the file turns tiles off, there is only the whole picture.
Status read_max_tiles(const json::object& object, ImageProcessorSpec& spec) {
  constexpr int32_t kMostTiles = 64;
  QUIRE_RETURN_IF_ERROR(read_stretched(object, spec));
  if (const json::value* tiles = object.if_contains("max_patches")) {
    const std::optional<int32_t> count = side_of(*tiles, "");
    if (!count || *count > kMostTiles)
      return invalid_argument("{}: max_patches: expected 1 to {}", kFileName, kMostTiles);
    spec.max_tiles = *count;
  }
  if (const json::value* least = object.if_contains("min_patches"); least != nullptr) {
    if (side_of(*least, "") != 1) return unimplemented("{}: min_patches: expected 1", kFileName);
  }
  if (!is_true(object, "crop_to_patches", true)) spec.max_tiles = 1;
  spec.max_tiles = std::max(1, spec.shape.max_tiles(spec.max_tiles));
  return {};
}

Status check_canvas(const json::object& object, const ImageProcessorSpec& spec) {
  QUIRE_RETURN_IF_ERROR(read_stretched(object, spec));
  const json::value* tiles = object.if_contains("max_image_tiles");
  const auto most =
      std::max_element(spec.shape.grids.begin(), spec.shape.grids.end(),
                       [](const TileGrid& a, const TileGrid& b) { return a.size() < b.size(); });
  if (tiles == nullptr || most == spec.shape.grids.end() || side_of(*tiles, "") == most->size())
    return {};
  return invalid_argument("{}: max_image_tiles: expected {}, as the model has it", kFileName,
                          most->size());
}

Status read_split(const json::object& object, ImageProcessorSpec& spec) {
  constexpr int32_t kMostPerSide = 8;
  const int32_t side = spec.shape.image_size;
  QUIRE_RETURN_IF_ERROR(read_longest_edge(object, spec));
  if (!object.contains("size")) spec.longest_edge = 4 * side;
  if (spec.longest_edge > kMostPerSide * side) {
    return unimplemented("{}: size: expected a longest_edge of at most {} squares of {}, got {}",
                         kFileName, kMostPerSide, side, spec.longest_edge);
  }
  if (const json::value* tile = object.if_contains("max_image_size")) {
    if (side_of(*tile, "longest_edge") != side) {
      return invalid_argument(
          "{}: max_image_size: expected a longest_edge of {}, as the model has it", kFileName,
          side);
    }
  }
  if (!is_true(object, "do_image_splitting", true)) spec.longest_edge = side;
  // Of all pictures with this longer side, a square has the most tiles.
  int32_t per_side = (spec.longest_edge + side - 1) / side;
  while (per_side > 1 && per_side * per_side > spec.shape.max_tiles(per_side * per_side))
    --per_side;
  spec.longest_edge = std::min(spec.longest_edge, per_side * side);
  return {};
}

Status read_crop(const json::object& object, ImageProcessorSpec& spec) {
  const int32_t image_size = spec.shape.image_size;
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
  if (spec.shortest_edge < image_size) {
    return unimplemented("{}: size: expected at least the crop_size {}, got {}", kFileName,
                         image_size, spec.shortest_edge);
  }
  if (const json::value* pads = object.if_contains("do_pad"); pads != nullptr && pads->is_bool()) {
    if (pads->get_bool()) return unimplemented("{}: do_pad: expected false, got true", kFileName);
  }
  return {};
}

// The sides of a picture in cells. Halves are rounded to even numbers, as in Python.
struct Sides {
  int32_t width = 0;
  int32_t height = 0;
};
Sides sides_rounded_up(const Image& image, const ImageProcessorSpec& spec) {
  const double cell = spec.shape.cell_size;
  double width = image.width, height = image.height;
  const double ratio = std::max(width, height) / spec.longest_edge;
  if (ratio > 1.0) width = std::floor(width / ratio), height = std::floor(height / ratio);
  double columns = std::max(1.0, std::ceil(width / cell)),
         rows = std::max(1.0, std::ceil(height / cell));
  const double excess = columns * rows / spec.shape.max_cells;
  if (excess > 1.0) {
    rows = std::clamp(std::floor(rows / std::sqrt(excess)), 1.0,
                      static_cast<double>(spec.shape.max_cells));
    columns = std::min(columns, std::floor(spec.shape.max_cells / rows));
  }
  return {.width = static_cast<int32_t>(columns * cell),
          .height = static_cast<int32_t>(rows * cell)};
}

// A picture too narrow for a cell becomes one cell wide, and as long as its shape and the limit
// allow.
Sides sides_of_most_cells(const Image& image, const ImageProcessorSpec& spec) {
  const double cell = spec.shape.cell_size, most = spec.shape.max_cells;
  const double width = image.width, height = image.height;
  const double factor = std::sqrt(most * cell * cell / (width * height));
  double rows = std::floor(factor * height / cell), columns = std::floor(factor * width / cell);
  if (rows == 0.0) {
    rows = 1.0;
    columns = std::clamp(std::floor(width / height), 1.0, most);
  } else if (columns == 0.0) {
    columns = 1.0;
    rows = std::clamp(std::floor(height / width), 1.0, most);
  }
  return {.width = static_cast<int32_t>(columns * cell),
          .height = static_cast<int32_t>(rows * cell)};
}

Sides sides_in_cells(const Image& image, const ImageProcessorSpec& spec) {
  if (spec.shape.fit == PictureFit::kRoundedUp) return sides_rounded_up(image, spec);
  if (spec.shape.fit == PictureFit::kMostCells) return sides_of_most_cells(image, spec);
  const double cell = spec.shape.cell_size;
  const double width = image.width, height = image.height;
  double columns = std::nearbyint(width / cell), rows = std::nearbyint(height / cell);
  const double pixels = columns * rows * cell * cell;
  if (pixels > static_cast<double>(spec.max_pixels)) {
    const double beta = std::sqrt(width * height / static_cast<double>(spec.max_pixels));
    rows = std::floor(height / beta / cell);
    columns = std::floor(width / beta / cell);
  } else if (pixels < static_cast<double>(spec.min_pixels)) {
    const double beta = std::sqrt(static_cast<double>(spec.min_pixels) / (width * height));
    rows = std::ceil(height * beta / cell);
    columns = std::ceil(width * beta / cell);
  }
  // Even a line of pixels becomes one cell wide, and no longer than the limit.
  rows = std::clamp(rows, 1.0, static_cast<double>(spec.shape.max_cells));
  columns = std::clamp(columns, 1.0, std::floor(spec.shape.max_cells / rows));
  return {.width = static_cast<int32_t>(columns * cell),
          .height = static_cast<int32_t>(rows * cell)};
}

}  // namespace

Result<ImageProcessorSpec> parse_image_processor(std::string_view preprocessor,
                                                 const PictureShape& shape) {
  ImageProcessorSpec spec{.shape = shape, .shortest_edge = shape.image_size};
  json::object object;
  if (!preprocessor.empty()) {
    QUIRE_ASSIGN_OR_RETURN(object, parse_object(preprocessor));
  }
  QUIRE_ASSIGN_OR_RETURN(spec.filter, filter_of(object, shape.fit));
  Status status;
  switch (shape.fit) {
    case PictureFit::kMiddle:
      status = read_crop(object, spec);
      break;
    case PictureFit::kStretched:
      status = read_crops(object, spec);
      break;
    case PictureFit::kNearest:
      status = read_pixel_bounds(object, spec);
      break;
    case PictureFit::kRoundedUp:
      status = read_longest_edge(object, spec);
      break;
    case PictureFit::kMostCells:  // the model's reader has set the limit
    case PictureFit::kBestGrid:   // the model's own file defines the grids
      break;
    case PictureFit::kNearestRatio:
      status = read_max_tiles(object, spec);
      break;
    case PictureFit::kLongestEdge:
      status = read_split(object, spec);
      break;
    case PictureFit::kBestCanvas:
      status = check_canvas(object, spec);
      break;
  }
  if (!status.ok()) return status;
  return spec;
}

Status check_sides(const Image& image) {
  // Such a picture would be scaled to a line of millions of pixels, of which only the middle is
  // used.
  constexpr int64_t kMaxRatio = 200;
  const int64_t shorter = std::min(image.width, image.height);
  const int64_t longer = std::max(image.width, image.height);
  if (longer <= shorter * kMaxRatio) return {};
  return invalid_argument(
      "image: expected sides of which none is more than {} times the other, "
      "got {} x {}",
      kMaxRatio, image.width, image.height);
}

Image process_image(const Image& image, const ImageProcessorSpec& spec) {
  const int32_t side = spec.shape.image_size;
  if (spec.shape.fit == PictureFit::kStretched) return resize(image, side, side, spec.filter);
  if (!spec.shape.is_square()) {
    const Sides sides = sides_in_cells(image, spec);
    return resize(image, sides.width, sides.height, spec.filter);
  }
  const int64_t shorter = std::min(image.width, image.height);
  const int64_t longer = std::max(image.width, image.height);
  const auto grown = static_cast<int32_t>(spec.shortest_edge * longer / shorter);
  const bool is_wide = image.width > image.height;
  const Image resized = resize(image, is_wide ? grown : spec.shortest_edge,
                               is_wide ? spec.shortest_edge : grown, spec.filter);
  return crop_middle(resized, side);
}

std::shared_ptr<MediaItem> make_item(Image image, const ImageProcessorSpec& spec) {
  auto item = std::make_shared<MediaItem>();
  item->key = digest(image);
  const int32_t cell = spec.shape.cell_size;
  item->num_embeddings = spec.shape.is_square() ? spec.shape.num_embeddings
                                                : (image.width / cell) * (image.height / cell);
  item->width = image.width;
  item->height = image.height;
  item->rgb = std::move(image.rgb);
  return item;
}

}  // namespace quire
