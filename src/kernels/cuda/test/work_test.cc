// Arithmetic that a GPU's kernels and launches rest on, on the CPU.
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/attention_work.h"
#include "kernels/cuda/matmul_key.h"
#include "kernels/cuda/swizzle.h"

namespace quire::cuda {
namespace {

TEST(Swizzle, EveryChunkHasItsPlaceAndEightRowsUseAllBanks) {
  for (const int chunks : {8, 16, 32}) {
    std::set<int> places;
    for (int row = 0; row < 64; ++row) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int offset = swizzled_offset(row, chunk, chunks);
        EXPECT_EQ(offset % 16, 0);
        EXPECT_LT(offset, 64 * chunks * 16);
        EXPECT_TRUE(places.insert(offset).second);
      }
    }
    for (int row = 0; row < 64; row += 8) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        std::set<int> banks;  // groups of four banks, 16 bytes
        for (int i = 0; i < 8; ++i) banks.insert(swizzled_offset(row + i, chunk, chunks) / 16 % 8);
        EXPECT_EQ(banks.size(), 8u);
      }
    }
  }
}

TEST(AttentionWork, SplitsCoverWhatIsSeenAtAbsolutePositions) {
  const AttentionCut full{.group = 4, .split_size = 256};
  const RequestCut decode = cut_request(full, 1, 1000);
  EXPECT_EQ(decode.rows, 4);
  EXPECT_EQ(decode.first_split, 0);
  EXPECT_EQ(decode.num_splits, 4);
  EXPECT_TRUE(decode.may_decode);
  EXPECT_EQ(decode.decode_items(), 4);
  EXPECT_EQ(decode.partial_rows(), 16);

  const AttentionCut window{.group = 1, .sliding_window = 300, .split_size = 256};
  const RequestCut seen = cut_request(window, 1, 1000);  // positions [700, 1000)
  EXPECT_EQ(seen.first_split, 2);
  EXPECT_EQ(seen.num_splits, 2);
}

TEST(AttentionWork, OneSplitNeedsNoPartials) {
  const RequestCut cut = cut_request({.group = 8}, 1, 256);
  EXPECT_EQ(cut.num_splits, 1);
  EXPECT_EQ(cut.partial_rows(), 0);
}

TEST(AttentionWork, ManyRowsArePrefillAndPaddingIsNothing) {
  const AttentionCut cut{.group = 4, .prefill_rows = 128};
  const RequestCut chunk = cut_request(cut, 100, 100);
  EXPECT_FALSE(chunk.may_decode);
  EXPECT_EQ(chunk.prefill_items(cut), 4);            // 400 rows
  EXPECT_TRUE(cut_request(cut, 4, 100).may_decode);  // 16 rows fit one tile
  EXPECT_TRUE(cut_request({.group = 96}, 1, 100).may_decode);
  EXPECT_EQ(cut_request({.group = 96}, 1, 100).decode_items(), 6);
  const RequestCut padding = cut_request(cut, 0, 0);
  EXPECT_EQ(padding.decode_items() + padding.prefill_items(cut) + padding.partial_rows(), 0);
}

TEST(AttentionWork, ItemsLeadToTheirRequest) {
  const int32_t starts[] = {0, 3, 3, 7, 8};
  const int32_t owners[] = {0, 0, 0, 2, 2, 2, 2, 3};
  for (int32_t item = 0; item < 8; ++item) EXPECT_EQ(find_request(starts, 4, item), owners[item]);
}

TEST(MatmulKey, DeterministicProductsShareOneAlgorithm) {
  for (const int64_t rows : {1, 7, 300, 8192}) {
    EXPECT_EQ(algorithm_rows(rows, true), kDeterministicRows);
    EXPECT_GE(algorithm_rows(rows, false), rows);
  }
  EXPECT_EQ(algorithm_rows(9, false), 9);
  EXPECT_EQ(algorithm_rows(17, false), 32);
  EXPECT_EQ(algorithm_rows(257, false), 512);
}

}  // namespace
}  // namespace quire::cuda
