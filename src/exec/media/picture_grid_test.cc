#include "exec/media/picture_grid.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace quire {
namespace {

TEST(PictureGrid, PatchesOfACellFollowEachOther) {
  VisionSpec spec;
  spec.merge_size = 2;
  const PictureGrid grid = make_picture_grid(spec, 1, 2);
  std::vector<std::pair<int32_t, int32_t>> places;
  for (const PatchPlace& place : grid.patches) places.emplace_back(place.y, place.x);
  EXPECT_EQ(places, (std::vector<std::pair<int32_t, int32_t>>{
                        {0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}}));
  EXPECT_EQ(grid.window_starts, (std::vector<int32_t>{0, 8}));
}

// Every patch comes once. Two patches share a window exactly if their cells' coordinates, divided
// by the window's sides, are equal. There are never more windows than were planned for.
TEST(PictureGrid, WindowsShareThePictureOut) {
  VisionSpec spec;
  for (spec.merge_size = 1; spec.merge_size <= 2; ++spec.merge_size) {
    for (spec.window_cells = 1; spec.window_cells <= 4; ++spec.window_cells) {
      for (int32_t height = 1; height <= 9; ++height) {
        for (int32_t width = 1; width <= 9; ++width) {
          const PictureGrid grid = make_picture_grid(spec, height, width);
          ASSERT_EQ(std::ssize(grid.patches), height * width * spec.patches_per_cell());
          std::set<std::pair<int32_t, int32_t>> seen, windows;
          for (int32_t window = 0; window < grid.num_windows(); ++window) {
            std::set<std::pair<int32_t, int32_t>> of_patches;
            const auto begin = static_cast<size_t>(grid.window_starts[static_cast<size_t>(window)]);
            const auto end =
                static_cast<size_t>(grid.window_starts[static_cast<size_t>(window) + 1]);
            ASSERT_LT(begin, end);
            for (size_t i = begin; i < end; ++i) {
              const PatchPlace place = grid.patches[i];
              const int32_t row = place.y / spec.merge_size, column = place.x / spec.merge_size;
              EXPECT_TRUE(seen.emplace(place.y, place.x).second);
              EXPECT_EQ(grid.cells[i / static_cast<size_t>(spec.patches_per_cell())],
                        row * width + column);
              of_patches.emplace(row / spec.window_cells, column / spec.window_cells);
            }
            EXPECT_EQ(of_patches.size(), 1u);
            EXPECT_TRUE(windows.insert(*of_patches.begin()).second);
          }
          spec.max_cells = height * width;
          EXPECT_LE(grid.num_windows(), spec.max_windows());
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
