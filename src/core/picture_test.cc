#include "core/picture.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(PictureShape, MaxTilesIsBetweenNoneAndWanted) {
  PictureShape shape{.num_embeddings = 100};
  EXPECT_EQ(shape.max_tiles(7), 7) << "without a bound";
  shape.max_tokens = 450;
  EXPECT_EQ(shape.max_tiles(7), 3) << "beside the whole";
  EXPECT_EQ(shape.max_tiles(2), 2);
  EXPECT_EQ(shape.max_tiles(0), 0);
  for (const int32_t too_few : {1, 99, 100, 199}) {
    shape.max_tokens = too_few;
    EXPECT_EQ(shape.max_tiles(7), 0) << too_few;
  }
  shape.num_embeddings = 0;
  EXPECT_EQ(shape.max_tiles(7), 7) << "a picture that is no square has no bound by squares";
}

}  // namespace
}  // namespace quire
