#include "exec/media/axis_positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace quire {
namespace {

constexpr int32_t kCell = 14;

MediaSpan picture(int32_t begin, int32_t height, int32_t width) {
  auto item = std::make_shared<MediaItem>();
  item->num_embeddings = height * width;
  item->height = height * kCell;
  item->width = width * kCell;
  return {.begin = begin, .end = begin + height * width, .item = std::move(item)};
}

using Positions = std::vector<int32_t>;

Positions positions_of(const std::vector<MediaSpan>& media, int32_t begin, int32_t count,
                       int32_t cell_size = kCell) {
  Positions out(static_cast<size_t>(3 * count), -1);
  write_axis_positions(media, cell_size, begin, count, out.data());
  return out;
}

// Numbers all tokens from the first to the last, as the paper describes it.
Positions naive(const std::vector<MediaSpan>& media, int32_t num_tokens) {
  Positions out;
  int32_t next = 0, token = 0;
  size_t index = 0;
  while (token < num_tokens) {
    if (index == media.size() || token < media[index].begin) {
      out.insert(out.end(), {next, next, next});
      ++next, ++token;
      continue;
    }
    const MediaItem& item = *media[index++].item;
    const int32_t height = item.height / kCell, width = item.width / kCell;
    for (int32_t y = 0; y < height; ++y) {
      for (int32_t x = 0; x < width; ++x, ++token)
        out.insert(out.end(), {next, next + y, next + x});
    }
    next += std::max(height, width);
  }
  out.resize(static_cast<size_t>(3 * num_tokens));
  return out;
}

TEST(AxisPositions, TextCountsOn) {
  EXPECT_EQ(positions_of({}, 5, 2), (Positions{5, 5, 5, 6, 6, 6}));
  EXPECT_EQ(positions_of({picture(1, 2, 2)}, 2, 2, 0), (Positions{2, 2, 2, 3, 3, 3}))
      << "models without rows and columns";
}

TEST(AxisPositions, TextBehindAPictureBeginsBehindItsLongerSide) {
  EXPECT_EQ(positions_of({picture(2, 2, 3)}, 0, 10),
            (Positions{0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 2, 2, 4,
                       2, 3, 2, 2, 3, 3, 2, 3, 4, 5, 5, 5, 6, 6, 6}));
}

// The positions of any range of tokens are those of a walk over all tokens.
TEST(AxisPositions, AnyPartIsThatOfTheWhole) {
  std::mt19937 random(7);
  const auto pick = [&](int32_t bound) {
    return std::uniform_int_distribution<int32_t>(0, bound - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<MediaSpan> media;
    int32_t end = 0;
    for (int32_t i = pick(4); i > 0; --i) {
      media.push_back(picture(end + pick(4), 1 + pick(4), 1 + pick(4)));
      end = media.back().end;
    }
    const int32_t num_tokens = end + 1 + pick(5);
    const Positions all = naive(media, num_tokens);
    const int32_t begin = pick(num_tokens);
    const int32_t count = 1 + pick(num_tokens - begin);
    EXPECT_EQ(positions_of(media, begin, count),
              Positions(all.begin() + 3 * begin, all.begin() + 3 * (begin + count)));
  }
}

}  // namespace
}  // namespace quire
