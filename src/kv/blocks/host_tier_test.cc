#include "kv/blocks/host_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>

namespace quire {
namespace {

constexpr int32_t kBlockSize = 2;

// Content that differs in tokens, group or keys, some of it with equal hashes.
struct Content {
  int32_t group = 0;
  std::vector<TokenId> tokens;
  CacheKeys keys;
  BlockContent view() const {
    const auto sum = static_cast<uint64_t>(tokens[0] + tokens[1]);
    return {.group = group, .keys = 12345, .hash = {sum, 0}, .parent = {}, .tokens = tokens};
  }
  auto tie() const { return std::tie(group, tokens, keys.salt); }
  friend bool operator<(const Content& a, const Content& b) { return a.tie() < b.tie(); }
};

// A list of content in order of use, the last used at the back.
class NaiveTier {
 public:
  explicit NaiveTier(size_t capacity) : capacity_(capacity) {}
  bool use(const Content& content) {
    const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const Content& other) {
      return !(other < content) && !(content < other);
    });
    if (it == kept_.end()) return false;
    kept_.splice(kept_.end(), kept_, it);
    return true;
  }
  void add(const Content& content) {
    if (kept_.size() == capacity_) kept_.pop_front();
    kept_.push_back(content);
  }
  size_t size() const { return kept_.size(); }

 private:
  size_t capacity_;
  std::list<Content> kept_;
};

TEST(HostTier, KeepsWhatANaiveListKeeps) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    const auto num_blocks = static_cast<int32_t>(2 + rng() % 12);
    HostTier tier(num_blocks, kBlockSize, seed);
    NaiveTier naive(static_cast<size_t>(num_blocks) - 1);
    std::map<int32_t, Content> memory;  // the content that the copies would have put there
    for (int i = 0; i < 2000; ++i) {
      const Content content{
          .group = static_cast<int32_t>(rng() % 2),
          .tokens = {static_cast<TokenId>(rng() % 4), static_cast<TokenId>(rng() % 4)},
          .keys = {.salt = rng() % 3 ? "" : "tenant", .adapter = {}}};
      if (rng() % 2) {
        const auto block = tier.keep(content.view(), content.keys);
        ASSERT_EQ(!block.has_value(), naive.use(content));
        if (!block) continue;
        naive.add(content);
        ASSERT_TRUE(block->value >= 1 && block->value < num_blocks);
        memory[block->value] = content;
      } else {
        const bool held = tier.holds(content.view(), content.keys);
        const auto block = tier.find(content.view(), content.keys);
        ASSERT_EQ(block.has_value(), held);
        ASSERT_EQ(block.has_value(), naive.use(content));
        if (block) {
          ASSERT_EQ(memory.at(block->value).tie(), content.tie());
        }
      }
      ASSERT_EQ(static_cast<size_t>(tier.num_kept()), naive.size());
    }
    tier.clear();
    EXPECT_EQ(tier.num_kept(), 0);
  }
}

}  // namespace
}  // namespace quire
