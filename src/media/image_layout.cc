#include "media/image_layout.h"

#include <fmt/format.h>

#include <utility>

#include "media/tiles.h"

namespace quire {
namespace {

// Returns `text` with "{row}" and "{column}" replaced.
std::string text_of_tile(std::string text, int32_t row, int32_t column) {
  const auto replace = [&](std::string_view hole, int32_t number) {
    const size_t at = text.find(hole);
    if (at != std::string::npos) text.replace(at, hole.size(), std::to_string(number + 1));
  };
  replace("{row}", row);
  replace("{column}", column);
  return text;
}

// Returns the text of an image that is cut into such a grid, and, with `has_whole`, of the whole
// behind it.
std::string text_of(const PictureText& text, TileGrid grid, bool has_whole) {
  std::string written = text.before;
  for (int32_t row = 0; row < grid.rows; ++row) {
    if (row > 0) written += text.between;
    for (int32_t column = 0; column < grid.columns; ++column)
      written += text_of_tile(text.tile, row, column);
  }
  if (grid.rows > 0) written += text.behind_tiles;
  if (has_whole) written += text.whole;
  return written + text.after;
}

class Layout {
 public:
  Layout(const ImageProcessorSpec& spec, const PictureText& text, std::shared_ptr<const void> lease)
      : spec_(spec), text_(text), lease_(std::move(lease)) {}

  // Makes one item with one place, or with a place for each row of its cells.
  InputImage one(Image picture) {
    const std::shared_ptr<MediaItem> item = add(std::move(picture));
    const int32_t rows = text_.has_rows ? item->height / spec_.shape.cell_size : 0;
    InputImage image{.text = text_of(text_, {.rows = rows, .columns = 1}, rows == 0), .places = {}};
    // A source keeps the one place of its token.
    const int32_t count = spec_.shape.is_source() ? 1 : item->num_embeddings;
    if (rows == 0) image.places.push_back({.item = item, .count = count});
    for (int32_t row = 0; row < rows; ++row) {
      const int32_t count = item->num_embeddings / rows;
      image.places.push_back({.item = item, .first = row * count, .count = count});
    }
    return image;
  }

  // Makes an item for each tile, and one for the whole.
  InputImage apart(PictureTiles cut) {
    InputImage image{.text = text_of(text_, cut.grid, true), .places = {}};
    cut.tiles.push_back(std::move(cut.whole));
    for (Image& tile : cut.tiles) {
      const std::shared_ptr<MediaItem> item = add(std::move(tile));
      image.places.push_back({.item = item, .count = item->num_embeddings});
    }
    return image;
  }

  // Makes an item for the whole, and then one for each crop; the text of each is that of a picture.
  InputImage with_crops(PictureTiles cut) {
    const std::string one = text_of(text_, {}, true);
    const CropText& words = text_.crops;
    const auto num_crops = static_cast<int64_t>(cut.tiles.size());
    InputImage image{.text = num_crops == 0 ? one : words.before_whole + one, .places = {}};
    for (int64_t i = 0; i < num_crops; ++i)
      image.text += (i == 0 ? words.behind_whole : words.between) + one;
    cut.tiles.insert(cut.tiles.begin(), std::move(cut.whole));
    for (Image& part : cut.tiles) {
      const std::shared_ptr<MediaItem> item = add(std::move(part));
      image.places.push_back({.item = item, .count = item->num_embeddings});
    }
    return image;
  }

  // Makes one item of the whole and all tiles.
  InputImage together(PictureTiles cut, int32_t width, int32_t height) {
    Image all = std::move(cut.whole);
    for (const Image& tile : cut.tiles) {
      all.rgb.insert(all.rgb.end(), tile.rgb.begin(), tile.rgb.end());
      all.height += tile.height;
    }
    const int32_t cells_per_side = spec_.shape.image_size / spec_.shape.cell_size;
    const std::shared_ptr<MediaItem> item = add(std::move(all));
    item->order = order_of_grid(width, height, cut.grid, cells_per_side);
    item->num_embeddings = static_cast<int32_t>(item->order.size());
    item->key += fmt::format(" of {}x{}", width, height);
    return {.text = text_of(text_, {}, true),
            .places = {{.item = item, .count = item->num_embeddings}}};
  }

 private:
  std::shared_ptr<MediaItem> add(Image picture) {
    std::shared_ptr<MediaItem> item = make_item(std::move(picture), spec_);
    item->lease = lease_;
    return item;
  }

  const ImageProcessorSpec& spec_;
  const PictureText& text_;
  std::shared_ptr<const void> lease_;
};

}  // namespace

Result<InputImage> lay_out_image(const Image& image, const ImageProcessorSpec& spec,
                                 const PictureText& text,
                                 const std::shared_ptr<const void>& lease) {
  QUIRE_RETURN_IF_ERROR(check_sides(image));
  Layout layout(spec, text, lease);
  const int32_t side = spec.shape.image_size;
  switch (spec.shape.fit) {
    case PictureFit::kBestGrid:
      return layout.together(cut_best_grid(image, spec.shape, spec.filter), image.width,
                             image.height);
    case PictureFit::kBestCanvas:
      return layout.one(fit_best_canvas(image, spec.shape, spec.filter));
    case PictureFit::kStretched:
      return layout.with_crops(cut_crops(image, side, spec.crops, spec.filter));
    case PictureFit::kNearestRatio:
      return layout.apart(cut_nearest_ratio(image, side, spec.max_tiles, spec.filter));
    case PictureFit::kLongestEdge:
      return layout.apart(cut_longest_edge(image, side, spec.longest_edge, spec.filter));
    default:
      return layout.one(process_image(image, spec));
  }
}

int64_t num_bytes(const InputImage& image) {
  int64_t sum = 0;
  const MediaItem* before = nullptr;  // places of one item are adjacent
  for (const ImagePlace& place : image.places) {
    if (place.item.get() != before) sum += static_cast<int64_t>(place.item->rgb.size());
    before = place.item.get();
  }
  return sum;
}

}  // namespace quire
