#include "media/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/base64.h"
#include "core/media.h"
#include "media/image_layout.h"
#include "media/image_processor.h"
#include "media/testing/image_goldens.h"

namespace quire {
namespace {

constexpr int32_t kSide = 16, kCellsPerSide = 4, kMostTiles = 6;

// The same rule as in tools/make_vision_goldens.py.
constexpr CropRule kCropRule{.max_crops = 3, .min_size = 13, .min_ratio = 1.2};

PictureShape grid_shape() {
  return {.fit = PictureFit::kBestGrid,
          .image_size = kSide,
          .num_embeddings = kCellsPerSide * kCellsPerSide,
          .cell_size = kSide / kCellsPerSide,
          .grids = {{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}}};
}

class TileGoldens : public test::ImageGoldens {};

PictureTiles cut(const Image& image, std::string_view fit) {
  if (fit == "best_grid") return cut_best_grid(image, grid_shape(), ResizeFilter::kBicubic);
  if (fit == "nearest_ratio")
    return cut_nearest_ratio(image, kSide, kMostTiles, ResizeFilter::kBicubic);
  if (fit == "crops") return cut_crops(image, kSide, kCropRule, ResizeFilter::kBilinear);
  return cut_longest_edge(image, kSide, 3 * kSide, ResizeFilter::kLanczos);
}

// Compares tiles with those of transformers' processors, within one step of 8 bits. LLaVA-NeXT and
// Gemma 3 have the whole picture first, the others last.
TEST_F(TileGoldens, AreTheOracles) {
  int num_cut = 0;
  for (const auto& [name, pictures] : goldens_.at("tiles").as_object()) {
    for (const boost::json::value& golden : pictures.as_array()) {
      const std::string fit(golden.at("fit").as_string());
      PictureTiles tiles = cut(image(name), fit);
      SCOPED_TRACE(fit + " of " + std::string(name));
      EXPECT_EQ(tiles.grid.rows, golden.at("rows").as_int64());
      EXPECT_EQ(tiles.grid.columns, golden.at("columns").as_int64());
      num_cut += tiles.tiles.empty() ? 0 : 1;
      const bool is_first = fit == "best_grid" || fit == "crops";
      auto place = is_first ? tiles.tiles.begin() : tiles.tiles.end();
      tiles.tiles.insert(place, tiles.whole);
      const std::string expected = *base64_decode(golden.at("rgb_base64").as_string());
      ASSERT_EQ(expected.size(), tiles.tiles.size() * kSide * kSide * 3);
      for (size_t i = 0; i < expected.size(); ++i) {
        const uint8_t got = tiles.tiles[i / (kSide * kSide * 3)].rgb[i % (kSide * kSide * 3)];
        ASSERT_LE(std::abs(int{got} - int{static_cast<uint8_t>(expected[i])}), 1) << "byte " << i;
      }
    }
  }
  EXPECT_GT(num_cut, 6);
}

// Compares the grids that transformers chooses, and the size of pictures in them, for many shapes.
TEST_F(TileGoldens, LayoutsAreTheOracles) {
  for (const boost::json::value& layout : goldens_.at("layouts").as_array()) {
    const auto numbers = boost::json::value_to<std::vector<int32_t>>(layout);
    SCOPED_TRACE(boost::json::serialize(layout));
    Image image{.width = numbers[0], .height = numbers[1], .rgb = {}};
    image.rgb.resize(size_t{3} * static_cast<size_t>(image.width * image.height));
    const PictureTiles best = cut(image, "best_grid");
    EXPECT_EQ(best.grid.rows, numbers[2]);
    EXPECT_EQ(best.grid.columns, numbers[3]);
    const std::vector<int32_t> order =
        order_of_grid(image.width, image.height, best.grid, kCellsPerSide);
    const auto breaks = std::count(order.begin(), order.end(), MediaItem::kLineBreak);
    EXPECT_EQ(breaks, numbers[4]);
    EXPECT_EQ(std::ssize(order), kCellsPerSide * kCellsPerSide + breaks * (numbers[5] + 1));
    const PictureTiles nearest = cut(image, "nearest_ratio");
    const bool is_cut = numbers[6] * numbers[7] > 1;
    EXPECT_EQ(nearest.grid.columns, is_cut ? numbers[6] : 0);
    EXPECT_EQ(nearest.grid.rows, is_cut ? numbers[7] : 0);
  }
}

// Compares the number of crops for pictures of many shapes.
TEST_F(TileGoldens, CropsAreTheOracles) {
  int num_cut = 0;
  for (const boost::json::value& counted : goldens_.at("crops").as_array()) {
    const auto numbers = boost::json::value_to<std::vector<int32_t>>(counted);
    Image image{.width = numbers[0], .height = numbers[1], .rgb = {}};
    image.rgb.resize(size_t{3} * static_cast<size_t>(image.width * image.height));
    const PictureTiles crops = cut(image, "crops");
    EXPECT_EQ(std::ssize(crops.tiles), numbers[2]) << boost::json::serialize(counted);
    EXPECT_EQ(crops.grid.size(), numbers[2]);
    num_cut += numbers[2] > 0 ? 1 : 0;
  }
  EXPECT_GT(num_cut, 50);
}

// Compares the canvas that transformers chooses and the picture's size on it, and the size that
// pictures of few cells get.
TEST_F(TileGoldens, FitsAreTheOracles) {
  constexpr int32_t kTile = 12;
  const PictureShape canvases{
      .fit = PictureFit::kBestCanvas,
      .image_size = kTile,
      .grids = {{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 1}, {2, 2}, {3, 1}, {4, 1}}};
  const ImageProcessorSpec cells{
      .shape = {.fit = PictureFit::kMostCells, .cell_size = 12, .max_cells = 20}};
  for (const boost::json::value& fit : goldens_.at("fits").as_array()) {
    const auto numbers = boost::json::value_to<std::vector<int32_t>>(fit);
    SCOPED_TRACE(boost::json::serialize(fit));
    Image image{.width = numbers[0], .height = numbers[1], .rgb = {}};
    image.rgb.assign(size_t{3} * static_cast<size_t>(image.width * image.height), 255);
    const Image in_cells = process_image(image, cells);
    EXPECT_EQ(in_cells.width, numbers[2]);
    EXPECT_EQ(in_cells.height, numbers[3]);
    const Image canvas = fit_best_canvas(image, canvases, ResizeFilter::kBilinear);
    ASSERT_EQ(canvas.height, numbers[4] * kTile);
    ASSERT_EQ(canvas.width, numbers[5] * kTile);
    for (int32_t y = 0; y < canvas.height; ++y) {
      for (int32_t x = 0; x < canvas.width; ++x)
        ASSERT_EQ(*canvas.pixel(x, y) > 0, x < numbers[6] && y < numbers[7]) << x << ", " << y;
    }
  }
}

// Two tiles lie side by side; the picture fills the two rows in the middle.
TEST(OrderOfGrid, GoesOnFromTileToTile) {
  const std::vector<int32_t> order = order_of_grid(40, 10, {.rows = 1, .columns = 2}, 4);
  std::vector<int32_t> expected(16);
  for (int32_t i = 0; i < 16; ++i) expected[static_cast<size_t>(i)] = i;
  const std::vector<int32_t> rows = {20, 21, 22, 23, 36, 37, 38, 39, MediaItem::kLineBreak,
                                     24, 25, 26, 27, 40, 41, 42, 43, MediaItem::kLineBreak};
  expected.insert(expected.end(), rows.begin(), rows.end());
  EXPECT_EQ(order, expected);
}

Image picture_of(int32_t width, int32_t height) {
  Image image{.width = width, .height = height, .rgb = {}};
  image.rgb.resize(size_t{3} * static_cast<size_t>(width * height), 100);
  return image;
}

// The texts are those of Idefics3.
TEST(ImageLayout, TilesApart) {
  const ImageProcessorSpec spec{.shape = {.fit = PictureFit::kLongestEdge,
                                          .image_size = 16,
                                          .num_embeddings = 5,
                                          .cell_size = 4},
                                .longest_edge = 32};
  const PictureText text{.marker = "<image>",
                         .tile = "[{row},{column}*]",
                         .between = "\n",
                         .behind_tiles = "|",
                         .whole = "(*)",
                         .after = "."};
  const auto square = lay_out_image(picture_of(30, 30), spec, text);
  ASSERT_TRUE(square.ok());
  EXPECT_EQ(square->text, "[1,1*][1,2*]\n[2,1*][2,2*]|(*).");
  ASSERT_EQ(square->places.size(), 5u);
  EXPECT_EQ(square->places[3].count, 5);
  EXPECT_EQ(num_bytes(*square), 5 * 16 * 16 * 3);
  const auto wide = lay_out_image(picture_of(60, 10), spec, text);
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->text, "[1,1*][1,2*]|(*).");
  const ImageProcessorSpec small{.shape = spec.shape, .longest_edge = 16};
  const auto whole = lay_out_image(picture_of(30, 30), small, text);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->text, "(*).");
  EXPECT_EQ(whole->places.size(), 1u);
}

// The texts are those of Gemma 3.
TEST(ImageLayout, CropsFollowTheWhole) {
  const ImageProcessorSpec spec{
      .shape = {.fit = PictureFit::kStretched, .image_size = 16, .num_embeddings = 5},
      .crops = {.max_crops = 3, .min_size = 10}};
  const PictureText text{
      .marker = "<image>",
      .before = "[",
      .whole = "*",
      .after = "]",
      .crops = {.before_whole = "all ", .behind_whole = " parts ", .between = " "}};
  const auto wide = lay_out_image(picture_of(60, 20), spec, text);
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->text, "all [*] parts [*] [*] [*]");
  EXPECT_EQ(wide->places.size(), 4u);
  EXPECT_EQ(num_bytes(*wide), 4 * 16 * 16 * 3);
  const auto square = lay_out_image(picture_of(21, 20), spec, text);
  ASSERT_TRUE(square.ok());
  EXPECT_EQ(square->text, "[*]");
  EXPECT_EQ(square->places.size(), 1u);
}

// As in LLaVA-NeXT, there is one item; its key contains the size of the picture.
TEST(ImageLayout, TilesTogether) {
  const ImageProcessorSpec spec{.shape = grid_shape()};
  const auto a = lay_out_image(picture_of(64, 32), spec, {});
  const auto b = lay_out_image(picture_of(32, 16), spec, {});
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->places.size(), 1u);
  const MediaItem& item = *a->places[0].item;
  EXPECT_EQ(item.height, 3 * kSide);
  EXPECT_EQ(item.num_embeddings, std::ssize(item.order));
  EXPECT_EQ(a->places[0].count, 16 + 4 * 9);
  EXPECT_NE(item.key, b->places[0].item->key);
  EXPECT_EQ(num_bytes(*a), 3 * kSide * kSide * 3);
}

TEST(ImageLayout, RefusesLines) {
  const auto line = lay_out_image(picture_of(402, 2), {.shape = grid_shape()}, {});
  EXPECT_EQ(line.status().message(),
            "image: expected sides of which none is more than 200 times the other, got 402 x 2");
}

}  // namespace
}  // namespace quire
