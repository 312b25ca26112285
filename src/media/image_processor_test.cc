#include "media/image_processor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <tuple>

#include "base/base64.h"
#include "media/testing/image_goldens.h"

namespace quire {
namespace {

int worst_step(const Image& image, const std::string& expected) {
  if (image.rgb.size() != expected.size()) return 256;
  int worst = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(int{image.rgb[i]} - int{static_cast<uint8_t>(expected[i])}));
  return worst;
}

using test::ImageGoldens;

// Compares with Pillow's resize, within one step of 8 bits.
TEST_F(ImageGoldens, Resize) {
  for (const boost::json::value& golden : goldens_.at("resized").as_array()) {
    const auto filter = golden.at("filter").as_string() == "bicubic"    ? ResizeFilter::kBicubic
                        : golden.at("filter").as_string() == "bilinear" ? ResizeFilter::kBilinear
                                                                        : ResizeFilter::kLanczos;
    const Image out =
        resize(image(golden.at("image").as_string()), golden.at("width").to_number<int32_t>(),
               golden.at("height").to_number<int32_t>(), filter);
    EXPECT_LE(worst_step(out, *base64_decode(golden.at("rgb_base64").as_string())), 1)
        << boost::json::serialize(golden.at("image")) << golden.at("width") << " x "
        << golden.at("height");
  }
}

// Compares with pixel_values of LLaVA in transformers, converted back to 8 bits.
TEST_F(ImageGoldens, Llava) {
  const auto spec = parse_image_processor(
      R"({"size": {"shortest_edge": 30}, "crop_size": {"height": 30, "width": 30}, "resample": 3})",
      {.image_size = 30, .num_embeddings = 25});
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  for (const auto& [name, pixels] : goldens_.at("llava_pixels_base64").as_object()) {
    const auto out = process_image(image(name), *spec);
    EXPECT_LE(worst_step(out, *base64_decode(pixels.as_string())), 1) << name;
  }
}

// Compares pictures that are stretched to a square with Gemma 3's filter.
TEST_F(ImageGoldens, Gemma3) {
  const auto spec = parse_image_processor(R"({"size": {"height": 30, "width": 30}})",
                                          {.fit = PictureFit::kStretched, .image_size = 30});
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  for (const auto& [name, pixels] : goldens_.at("gemma_pixels_base64").as_object()) {
    const Image out = process_image(image(name), *spec);
    EXPECT_LE(worst_step(out, *base64_decode(pixels.as_string())), 1) << name;
  }
}

// Compares pictures in cells with transformers: unchanged, shrunk and enlarged ones.
TEST_F(ImageGoldens, QwenVl) {
  for (const auto& [name, pictures] : goldens_.at("qwen_pixels").as_object()) {
    for (const boost::json::value& golden : pictures.as_array()) {
      const auto spec = parse_image_processor(
          fmt::format(R"({{"size": {{"shortest_edge": {}, "longest_edge": {}}}, "resample": 3}})",
                      golden.at("min_pixels").as_int64(), golden.at("max_pixels").as_int64()),
          {.fit = PictureFit::kNearest, .cell_size = 8, .max_cells = 4096});
      ASSERT_TRUE(spec.ok()) << spec.status().message();
      const auto out = process_image(image(name), *spec);
      EXPECT_EQ(out.width, golden.at("width").as_int64()) << name;
      EXPECT_EQ(out.height, golden.at("height").as_int64()) << name;
      EXPECT_LE(worst_step(out, *base64_decode(golden.at("rgb_base64").as_string())), 1) << name;
      const auto item = make_item(out, *spec);
      EXPECT_EQ(item->num_embeddings, out.width / 8 * (out.height / 8));
    }
  }
}

TEST_F(ImageGoldens, Pixtral) {
  for (const auto& [name, pictures] : goldens_.at("pixtral_pixels").as_object()) {
    for (const boost::json::value& golden : pictures.as_array()) {
      const auto spec =
          parse_image_processor(fmt::format(R"({{"size": {{"longest_edge": {}}}}})",
                                            golden.at("longest_edge").as_int64()),
                                {.fit = PictureFit::kRoundedUp, .cell_size = 8, .max_cells = 4096});
      ASSERT_TRUE(spec.ok()) << spec.status().message();
      const auto out = process_image(image(name), *spec);
      EXPECT_EQ(out.width, golden.at("width").as_int64()) << name;
      EXPECT_EQ(out.height, golden.at("height").as_int64()) << name;
      EXPECT_LE(worst_step(out, *base64_decode(golden.at("rgb_base64").as_string())), 1) << name;
    }
  }
}

TEST_F(ImageGoldens, Gemma4) {
  for (const auto& [name, pictures] : goldens_.at("most_cells_pixels").as_object()) {
    for (const boost::json::value& golden : pictures.as_array()) {
      const auto spec =
          parse_image_processor("", {.fit = PictureFit::kMostCells,
                                     .cell_size = 12,
                                     .max_cells = golden.at("max_cells").to_number<int32_t>()});
      ASSERT_TRUE(spec.ok()) << spec.status().message();
      const auto out = process_image(image(name), *spec);
      EXPECT_EQ(out.width, golden.at("width").as_int64()) << name;
      EXPECT_EQ(out.height, golden.at("height").as_int64()) << name;
      EXPECT_LE(worst_step(out, *base64_decode(golden.at("rgb_base64").as_string())), 1) << name;
    }
  }
}

// Pictures of any size become a whole number of cells, and no more than the limit.
TEST(ImageProcessor, PicturesAreFilledByCells) {
  using enum PictureFit;
  constexpr PictureFit kFits[] = {kNearest, kRoundedUp, kMostCells};
  for (const int32_t round : {0, 1, 2, 9, 10, 11, 24, 31, 32}) {
    const int32_t max_cells = round == 0 ? 1 : 6 * round + 1;
    const auto spec =
        parse_image_processor(R"({"min_pixels": 3000})",
                              {.fit = kFits[round % 3], .cell_size = 14, .max_cells = max_cells});
    ASSERT_TRUE(spec.ok());
    for (const auto& [width, height] :
         {std::pair{1, 1}, {1, 200}, {200, 1}, {13, 15}, {400, 3}, {129, 130}, {21, 7}}) {
      const Image in{.width = width,
                     .height = height,
                     .rgb = std::vector<uint8_t>(static_cast<size_t>(3 * width * height))};
      const auto out = process_image(in, *spec);
      EXPECT_EQ(out.width % 14 + out.height % 14, 0);
      const int32_t cells = out.width / 14 * (out.height / 14);
      EXPECT_TRUE(cells >= 1 && cells <= spec->shape.max_cells)
          << width << " x " << height << ": " << cells;
    }
  }
}

TEST(ImageProcessor, ErrorsNameTheField) {
  for (const auto& [text, part] : {std::pair{R"({"resample": 0})", "resample"},
                                   {R"({"crop_size": 20})", "crop_size"},
                                   {R"({"size": {"longest_edge": 3}})", "size"},
                                   {R"({"do_pad": true})", "do_pad"},
                                   {"[", "not valid JSON"}}) {
    const auto spec = parse_image_processor(text, {.image_size = 30, .num_embeddings = 25});
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_NE(spec.status().message().find(part), std::string::npos) << spec.status().message();
  }
  for (const char* text : {R"({"min_pixels": 0})", R"({"size": {"longest_edge": "3"}})"}) {
    const auto spec = parse_image_processor(
        text, {.fit = PictureFit::kNearest, .cell_size = 28, .max_cells = 64});
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_NE(spec.status().message().find("pixels"), std::string::npos);
  }
}

TEST(ImageProcessor, ErrorsOfSquaresAndTilesNameTheField) {
  using enum PictureFit;
  for (const auto& [fit, text, part] :
       {std::tuple{kStretched, R"({"size": {"height": 30, "width": 28}})", "30 x 30"},
        {kStretched, R"({"do_pan_and_scan": true, "pan_and_scan_max_num_crops": 0})",
         "max_num_crops"},
        {kStretched, R"({"do_pan_and_scan": true, "pan_and_scan_min_crop_size": "a"})",
         "min_crop_size"},
        {kStretched, R"({"do_pan_and_scan": true, "pan_and_scan_min_ratio_to_activate": 0.5})",
         "min_ratio"},
        {kNearestRatio, R"({"size": {"shortest_edge": 30}})", "size"},
        {kNearestRatio, R"({"max_patches": 65})", "max_patches"},
        {kNearestRatio, R"({"min_patches": 2})", "min_patches"},
        {kLongestEdge, R"({"size": {"longest_edge": 241}})", "size"},
        {kLongestEdge, R"({"max_image_size": {"longest_edge": 31}})", "max_image_size"}}) {
    const auto spec = parse_image_processor(text, {.fit = fit, .image_size = 30});
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_NE(spec.status().message().find(part), std::string::npos) << spec.status().message();
  }
}

// With a limit of tokens and 25 tokens per tile, there are the whole picture and as many tiles as
// fit.
TEST(ImageProcessor, FewerTilesOfFewerTokens) {
  using enum PictureFit;
  for (const auto& [max_tokens, max_tiles, longest_edge] : {std::tuple{25, 1, 30},
                                                            {100, 3, 30},
                                                            {125, 4, 60},
                                                            {249, 8, 60},
                                                            {250, 9, 90},
                                                            {0, 12, 120}}) {
    const PictureShape shape{
        .image_size = 30, .num_embeddings = 25, .cell_size = 6, .max_tokens = max_tokens};
    PictureShape nearest = shape, split = shape;
    nearest.fit = kNearestRatio;
    split.fit = kLongestEdge;
    EXPECT_EQ(parse_image_processor("", nearest)->max_tiles, max_tiles) << max_tokens;
    EXPECT_EQ(parse_image_processor("", split)->longest_edge, longest_edge) << max_tokens;
    PictureShape panned = shape;
    panned.fit = kStretched;
    const int32_t most_crops = max_tokens == 0 ? 4 : std::min(4, max_tokens / 25 - 1);
    EXPECT_EQ(parse_image_processor(R"({"do_pan_and_scan": true})", panned)->crops.max_crops,
              most_crops);
  }
}

// Checks files that say nothing about tiles, and files that turn them off.
TEST(ImageProcessor, TilesByDefaultAndNone) {
  using enum PictureFit;
  const auto internvl = parse_image_processor("", {.fit = kNearestRatio, .image_size = 30});
  EXPECT_EQ(internvl->max_tiles, 12);
  const auto whole = parse_image_processor(R"({"crop_to_patches": false, "max_patches": 9})",
                                           {.fit = kNearestRatio, .image_size = 30});
  EXPECT_EQ(whole->max_tiles, 1);
  const auto idefics = parse_image_processor("", {.fit = kLongestEdge, .image_size = 30});
  EXPECT_EQ(idefics->longest_edge, 120);
  EXPECT_EQ(idefics->filter, ResizeFilter::kLanczos);
  const auto unsplit = parse_image_processor(R"({"do_image_splitting": false})",
                                             {.fit = kLongestEdge, .image_size = 30});
  EXPECT_EQ(unsplit->longest_edge, 30);
}

}  // namespace
}  // namespace quire
