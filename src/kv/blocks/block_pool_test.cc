#include "kv/blocks/block_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

std::vector<int32_t> free_list(const BlockPool& pool) {
  std::vector<int32_t> ids;
  for (BlockId b = pool.first_free(); b != kNullBlock; b = pool.next_free(b))
    ids.push_back(b.value);
  return ids;
}

TEST(BlockPool, StartsWithAllButTheNullBlockFree) {
  const BlockPool pool(4);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_EQ(free_list(pool), (std::vector<int32_t>{1, 2, 3}));
}

TEST(BlockPool, TakesFromTheFrontAndFreesToEitherEnd) {
  BlockPool pool(5);
  const BlockId a = pool.take();
  const BlockId b = pool.take();
  EXPECT_EQ(a, BlockId(1));
  pool.unref(a, FreeEnd::kBack);
  pool.unref(b, FreeEnd::kFront);
  EXPECT_EQ(free_list(pool), (std::vector<int32_t>{2, 3, 4, 1}));
}

TEST(BlockPool, RefOfAFreeBlockUnlinksItFromTheMiddle) {
  BlockPool pool(5);
  pool.ref(BlockId(2));
  EXPECT_EQ(free_list(pool), (std::vector<int32_t>{1, 3, 4}));
  pool.ref(BlockId(2));
  pool.unref(BlockId(2), FreeEnd::kFront);
  EXPECT_EQ(pool.ref_cnt(BlockId(2)), 1);
  EXPECT_EQ(pool.num_free(), 3);
  pool.unref(BlockId(2), FreeEnd::kFront);
  EXPECT_EQ(free_list(pool), (std::vector<int32_t>{2, 1, 3, 4}));
}

TEST(BlockPool, EmptyAndFullAgain) {
  BlockPool pool(3);
  const BlockId a = pool.take();
  const BlockId b = pool.take();
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.first_free(), kNullBlock);
  pool.unref(b, FreeEnd::kBack);
  pool.unref(a, FreeEnd::kBack);
  EXPECT_EQ(free_list(pool), (std::vector<int32_t>{2, 1}));
}

TEST(BlockPoolDeathTest, MisuseIsCaught) {
  BlockPool pool(2);
  const BlockId a = pool.take();
  EXPECT_DEATH(pool.take(), "KV-1");
  pool.unref(a, FreeEnd::kBack);
  EXPECT_DEATH(pool.unref(a, FreeEnd::kBack), "KV-2");
  EXPECT_DEATH(pool.unref(kNullBlock, FreeEnd::kBack), "KV-2");
}

}  // namespace
}  // namespace quire
