#include "nn/rank_share.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// The ranks share all outputs, each exactly once and in order, and every rank gets some if there
// are enough.
TEST(RankShare, OutputsAreDealtOutWhole) {
  for (const int64_t count : {1, 3, 17, 48, 64, 100, 160, 1000, 2048, 49152, 128256}) {
    for (int32_t num_ranks = 1; num_ranks <= 9; ++num_ranks) {
      int64_t next = 0;
      for (int32_t rank = 0; rank < num_ranks; ++rank) {
        const RowRange own = RankShare{rank, num_ranks}.outputs(count);
        EXPECT_EQ(own.begin, next);
        if (count >= num_ranks) {
          EXPECT_GT(own.size(), 0) << count << " over " << num_ranks;
        }
        next = own.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(RankShare, BlocksOfScalesStayWhole) {
  const RowRange own = RankShare{1, 2}.outputs(1536);
  EXPECT_EQ(own.begin % 128, 0);
}

AttentionSpec attention(int32_t heads, int32_t kv_heads) {
  return {.num_heads = heads, .num_kv_heads = kv_heads, .head_dim = 16};
}

TEST(RankShare, HeadsFollowTheirKvHeads) {
  for (const auto& [heads, kv_heads, num_ranks] : std::vector<std::array<int32_t, 3>>{
           {8, 8, 2}, {8, 2, 2}, {9, 3, 2}, {12, 3, 3}, {8, 1, 4}, {8, 2, 8}, {32, 8, 4}}) {
    const AttentionSpec whole = attention(heads, kv_heads);
    int64_t next_head = 0;
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      const HeadShare own = share_of(whole, {rank, num_ranks});
      EXPECT_EQ(own.heads.begin, next_head);
      next_head = own.heads.end;
      const int64_t group = heads / kv_heads;
      for (int64_t head = own.heads.begin; head < own.heads.end; ++head) {
        // As attention computes it: head i of a rank reads the rank's KV head i / (heads per KV
        // head).
        const int64_t local = (head - own.heads.begin) / (own.heads.size() / own.kv_heads.size());
        EXPECT_EQ(own.kv_heads.begin + local, head / group) << heads << " " << kv_heads;
      }
    }
    EXPECT_EQ(next_head, heads);
  }
}

TEST(RankShare, SaysWhichNumbersCannotShareHeads) {
  DecoderSpec spec;
  spec.layers.push_back({.attention = attention(12, 3)});
  EXPECT_TRUE(check_ranks(spec, {.num_ranks = 3}).ok());
  EXPECT_TRUE(check_ranks(spec, {.num_ranks = 6}).ok());
  const Status status = check_ranks(spec, {.num_ranks = 4});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("12 query heads and 3 KV heads"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace quire
