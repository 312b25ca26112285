#include "kv/prefix/prefix_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace quire {
namespace {

TEST(SipHash, PublishedVectorsOf128BitOutput) {
  std::array<std::byte, 16> key_bytes{};
  for (size_t i = 0; i < key_bytes.size(); ++i) key_bytes[i] = static_cast<std::byte>(i);
  const uint64_t key0 = 0x0706050403020100u;
  const uint64_t key1 = 0x0f0e0d0c0b0a0908u;
  const BlockHash empty = siphash128(key0, key1, {});
  EXPECT_EQ(empty.low, 0xe6a825ba047f81a3u);
  EXPECT_EQ(empty.high, 0x930255c71472f66du);
  const BlockHash one = siphash128(key0, key1, std::span(key_bytes).first(1));
  EXPECT_EQ(one.low, 0x44af996bd8c187dau);
  EXPECT_EQ(one.high, 0x45fc229b11597634u);
}

TEST(BlockHasher, SaltAndAdapterOfTheSameNameDiffer) {
  const BlockHasher hasher(7);
  const BlockHash none = hasher.root({});
  const BlockHash salt = hasher.root({.salt = "x", .adapter = ""});
  const BlockHash adapter = hasher.root({.salt = "", .adapter = "x"});
  EXPECT_NE(salt, adapter);
  EXPECT_NE(salt, none);
  EXPECT_NE(adapter, none);
  // Each key is hashed with its length, so that moving characters from one to the other changes the
  // hash.
  EXPECT_NE(hasher.root({.salt = "ab", .adapter = "c"}),
            hasher.root({.salt = "a", .adapter = "bc"}));
  EXPECT_NE(none, BlockHasher(8).root({}));
}

TEST(BlockHasher, EveryInputMatters) {
  const BlockHasher hasher(1);
  const std::vector<TokenId> a{1, 2, 3};
  const std::vector<TokenId> b{1, 2, 4};
  const BlockHash root = hasher.root({});
  EXPECT_NE(hasher.extend(root, a), hasher.extend(root, b));
  EXPECT_NE(hasher.extend(root, a), hasher.extend(hasher.extend(root, a), a));
  EXPECT_NE(hasher.extend(root, std::span(a).first(2)), hasher.extend(root, a));
}

class PrefixCacheTest : public testing::Test {
 protected:
  BlockContent content(std::span<const TokenId> tokens, int32_t keys = 0, int32_t group = 0) const {
    const BlockHash root = keys_.root(keys);
    return {.group = group,
            .keys = keys,
            .hash = cache_.keys().hasher().extend(root, tokens),
            .parent = root,
            .tokens = tokens};
  }
  CacheKeyTable keys_{3};
  PrefixCache cache_{8, 2, keys_};
  const std::vector<TokenId> x_{1, 2};
  const std::vector<TokenId> y_{3, 4};
};

TEST_F(PrefixCacheTest, FirstOfSeveralWithTheSameContentIsFound) {
  EXPECT_TRUE(cache_.insert(BlockId(5), content(x_)));
  EXPECT_FALSE(cache_.insert(BlockId(2), content(x_)));
  EXPECT_EQ(cache_.find(content(x_)), BlockId(5));
  EXPECT_FALSE(cache_.erase(BlockId(5)));
  EXPECT_EQ(cache_.find(content(x_)), BlockId(2));
  EXPECT_TRUE(cache_.erase(BlockId(2)));
  EXPECT_FALSE(cache_.find(content(x_)));
  EXPECT_EQ(cache_.num_registered(), 0);
}

TEST_F(PrefixCacheTest, ACollidingHashIsNotAHit) {
  BlockContent stored = content(x_);
  cache_.insert(BlockId(1), stored);
  BlockContent forged = stored;  // the same hash and parent, other tokens
  forged.tokens = y_;
  EXPECT_FALSE(cache_.find(forged));
  forged = stored;
  forged.parent.high ^= 1;
  EXPECT_FALSE(cache_.find(forged));
  forged = stored;
  forged.group = 1;
  EXPECT_FALSE(cache_.find(forged));
  forged = stored;
  forged.keys = keys_.acquire({.salt = "t", .adapter = ""});
  EXPECT_FALSE(cache_.find(forged));
  EXPECT_EQ(cache_.find(stored), BlockId(1));
}

TEST_F(PrefixCacheTest, GroupsAreSeparate) {
  cache_.insert(BlockId(1), content(x_, 0, 0));
  EXPECT_FALSE(cache_.find(content(x_, 0, 1)));
  EXPECT_TRUE(cache_.insert(BlockId(2), content(x_, 0, 1)));
  EXPECT_EQ(cache_.find(content(x_, 0, 1)), BlockId(2));
}

TEST_F(PrefixCacheTest, KeysLiveAsLongAsAnyoneUsesThem) {
  const CacheKeys tenant{.salt = "tenant", .adapter = ""};
  EXPECT_FALSE(keys_.find(tenant));
  const int32_t id = keys_.acquire(tenant);
  EXPECT_EQ(keys_.acquire(tenant), id);
  cache_.insert(BlockId(3), content(x_, id));
  keys_.release(id);
  keys_.release(id);
  EXPECT_EQ(keys_.find(tenant), id) << "the block still has them";
  cache_.erase(BlockId(3));
  EXPECT_FALSE(keys_.find(tenant));
  EXPECT_EQ(keys_.find({}), 0);
}

TEST_F(PrefixCacheTest, ClearForgetsEverything) {
  const int32_t id = keys_.acquire({.salt = "", .adapter = "a"});
  cache_.insert(BlockId(3), content(x_, id));
  cache_.insert(BlockId(4), content(y_));
  keys_.release(id);
  cache_.clear();
  EXPECT_EQ(cache_.num_registered(), 0);
  EXPECT_FALSE(cache_.find(content(y_)));
  EXPECT_FALSE(keys_.find({.salt = "", .adapter = "a"}));
  EXPECT_TRUE(cache_.insert(BlockId(3), content(y_)));
}

}  // namespace
}  // namespace quire
