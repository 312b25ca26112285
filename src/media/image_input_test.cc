#include "media/image_input.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "media/testing/test_images.h"

namespace quire {
namespace {

constexpr TokenId kPlaceholder = 9;

ImageInput make_input(ImageInputOptions options = {}) {
  return ImageInput({.shape = {.image_size = 4, .num_embeddings = 3}, .shortest_edge = 4},
                    kPlaceholder, std::move(options));
}

std::string red_square(int32_t side) {
  return "data:image/png;base64," + base64_encode(test::png_of(side, side, 200, 10, 10));
}

TEST(ImageInput, PutsImagesInTheirPlaces) {
  const ImageInput input = make_input();
  const auto a = input.load(red_square(5)), b = input.load(red_square(7));
  ASSERT_TRUE(a.ok() && b.ok());
  std::vector<TokenId> prompt = {1, kPlaceholder, 2, kPlaceholder, kPlaceholder};
  const auto spans = input.place({*a, *b, *a}, prompt);
  ASSERT_TRUE(spans.ok()) << spans.status().message();
  EXPECT_EQ(prompt, (std::vector<TokenId>{1, 9, 9, 9, 2, 9, 9, 9, 9, 9, 9}));
  ASSERT_EQ(spans->size(), 3u);
  EXPECT_EQ((*spans)[0].begin, 1);
  EXPECT_EQ((*spans)[1].begin, 5);
  EXPECT_EQ((*spans)[2].begin, 8);
  EXPECT_EQ((*spans)[2].end, 11);
  EXPECT_EQ((*spans)[2].item, a->places[0].item);
}

TEST(ImageInput, RefusesOtherNumbersOfPlaces) {
  const ImageInput input = make_input();
  std::vector<TokenId> prompt = {1, kPlaceholder};
  const auto spans = input.place({}, prompt);
  EXPECT_EQ(spans.status().message(),
            "the prompt has 1 places for images (token 9), expected 0 for 0 images");
}

// Equal pictures have the same key, and different ones different keys.
TEST(ImageInput, KeysTellPicturesApart) {
  const ImageInput input = make_input();
  const auto a = input.load(red_square(5)), again = input.load(red_square(5));
  const auto other =
      input.load("data:image/png;base64," + base64_encode(test::png_of(5, 5, 200, 10, 11)));
  ASSERT_TRUE(a.ok() && again.ok() && other.ok());
  EXPECT_EQ(a->places[0].item->key, again->places[0].item->key);
  EXPECT_NE(a->places[0].item->key, other->places[0].item->key);
}

TEST(ImageInput, BoundsWhatRequestsHold) {
  const ImageInput input = make_input({.max_held_bytes = 2 * 4 * 4 * 3});
  auto a = input.load(red_square(5));
  const auto b = input.load(red_square(6));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(input.load(red_square(7)).status().code(), StatusCode::kResourceExhausted);
  a = Status(StatusCode::kNotFound, "gone");
  EXPECT_TRUE(input.load(red_square(7)).ok());
}

// A picture that is a source takes the place of one token, and a prompt has only one.
TEST(ImageInput, ASourceStandsWhereItsTokenDoes) {
  const ImageInput input({.shape = {.fit = PictureFit::kBestCanvas,
                                    .image_size = 4,
                                    .num_embeddings = 12,
                                    .grids = {{1, 1}, {1, 2}, {2, 1}}}},
                         kPlaceholder);
  const auto image = input.load(red_square(5));
  ASSERT_TRUE(image.ok()) << image.status().message();
  std::vector<TokenId> prompt = {1, 2, kPlaceholder, 3};
  const auto spans = input.place({*image}, prompt);
  ASSERT_TRUE(spans.ok()) << spans.status().message();
  EXPECT_EQ(prompt, (std::vector<TokenId>{1, 2, kPlaceholder, 3}));
  ASSERT_EQ(spans->size(), 1u);
  EXPECT_TRUE(spans->front().is_source());
  EXPECT_EQ(spans->front().shown_from, 2);
  EXPECT_EQ(spans->front().item->num_embeddings, 12);
  prompt.push_back(kPlaceholder);
  EXPECT_EQ(input.place({*image, *image}, prompt).status().message(),
            "images: expected one of a prompt, which all of its tokens look at, got 2");
}

// Each row of embeddings has a placeholder, with the family's text between rows.
TEST(ImageInput, WritesRowsOut) {
  constexpr TokenId kImg = 9;
  const ImageInput input(
      {.shape = {.fit = PictureFit::kRoundedUp, .cell_size = 2, .max_cells = 64},
       .longest_edge = 6},
      kImg, {},
      {.marker = "[IMG]", .tile = "[IMG]", .between = "|", .after = ")", .has_rows = true});
  const auto wide =
      input.load("data:image/png;base64," + base64_encode(test::png_of(6, 4, 1, 2, 3)));
  const auto small =
      input.load("data:image/png;base64," + base64_encode(test::png_of(2, 1, 1, 2, 3)));
  ASSERT_TRUE(wide.ok() && small.ok());
  const std::vector<InputImage> images = {*wide, *small};
  std::string prompt = "a[IMG]b[IMG]";
  ASSERT_TRUE(input.write_out(images, prompt).ok());
  EXPECT_EQ(prompt, "a[IMG]|[IMG])b[IMG])");
  std::vector<TokenId> tokens = {1, kImg, 2, kImg, 3, kImg, 4};
  const auto spans = input.place(images, tokens);
  ASSERT_TRUE(spans.ok()) << spans.status().message();
  EXPECT_EQ(tokens, (std::vector<TokenId>{1, kImg, kImg, kImg, 2, kImg, kImg, kImg, 3, kImg, 4}));
  ASSERT_EQ(spans->size(), 3u);
  EXPECT_EQ((*spans)[1].begin, 5);
  EXPECT_EQ((*spans)[1].end, 8);
  EXPECT_EQ((*spans)[1].first, 3);
  EXPECT_EQ((*spans)[2].item, small->places[0].item);
  std::string wrong = "[IMG]";
  EXPECT_EQ(input.write_out(images, wrong).message(),
            "the prompt has 1 places for images ([IMG]), and 2 images came");
  EXPECT_EQ(wrong, "[IMG]");
}

}  // namespace
}  // namespace quire
