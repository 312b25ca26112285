#include "route/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>

namespace quire {
namespace {

TEST(PrefixChain, StandsForTheTextUpToEachPiece) {
  const std::string text = "the same beginning, and then something else";
  const auto chain = prefix_chain(0, text, 8);
  ASSERT_EQ(chain.size(), text.size() / 8);
  std::string other = text;
  other[20] = '!';
  const auto other_chain = prefix_chain(0, other, 8);
  EXPECT_TRUE(std::equal(chain.begin(), chain.begin() + 2, other_chain.begin()));
  for (size_t i = 2; i < chain.size(); ++i) EXPECT_NE(chain[i], other_chain[i]);
  EXPECT_NE(prefix_chain(1, text, 8)[0], chain[0]);
  EXPECT_EQ(prefix_chain(0, std::string(100'000, 'x'), 4).size(), kMostPieces);
}

TEST(PrefixChain, EqualPiecesAtDifferentPlacesDiffer) {
  const std::vector<int32_t> tokens(64, 7);
  auto chain = prefix_chain(0, tokens, 16);
  ASSERT_EQ(chain.size(), 4u);
  std::sort(chain.begin(), chain.end());
  EXPECT_EQ(std::unique(chain.begin(), chain.end()), chain.end());
}

TEST(PrefixIndex, MatchesWhatAReplicaWasSent) {
  PrefixIndex index(100);
  const std::vector<uint64_t> chain = {1, 2, 3, 4};
  index.note(std::span(chain).first(3), 5);
  EXPECT_EQ(index.match(chain, 5), 3);
  EXPECT_EQ(index.match(chain, 6), 0);
  index.forget(5);
  EXPECT_EQ(index.match(chain, 5), 0);
  EXPECT_EQ(index.num_pieces(5), 0u);
}

TEST(PrefixIndex, ALongChainKeepsItsBeginning) {
  PrefixIndex index(3);
  const std::vector<uint64_t> chain = {1, 2, 3, 4, 5};
  index.note(chain, 0);
  EXPECT_EQ(index.match(chain, 0), 3);
  index.note(std::vector<uint64_t>{9}, 0);
  EXPECT_EQ(index.match(chain, 0), 2);
}

// The naive model is a list of pieces, the newest first.
TEST(PrefixIndex, EqualsANaiveModel) {
  std::mt19937 rng(7);
  constexpr size_t kMost = 20;
  PrefixIndex index(kMost);
  std::vector<std::deque<uint64_t>> model(3);
  for (int step = 0; step < 20'000; ++step) {
    std::vector<uint64_t> chain(rng() % 30);
    const uint64_t family = rng() % 4;
    for (size_t i = 0; i < chain.size(); ++i) chain[i] = 1000 * (i / (1 + family)) + family * 17;
    chain.erase(std::unique(chain.begin(), chain.end()), chain.end());
    const auto replica = static_cast<int32_t>(rng() % 3);
    std::deque<uint64_t>& list = model[static_cast<size_t>(replica)];
    if (rng() % 50 == 0) {
      index.forget(replica);
      list.clear();
    } else if (rng() % 2 == 0) {
      index.note(chain, replica);
      for (size_t i = std::min(chain.size(), kMost); i-- > 0;) {
        std::erase(list, chain[i]);
        list.push_front(chain[i]);
        if (list.size() > kMost) list.pop_back();
      }
    }
    int32_t expected = 0;
    for (const uint64_t piece : chain) {
      if (std::find(list.begin(), list.end(), piece) == list.end()) break;
      ++expected;
    }
    ASSERT_EQ(index.match(chain, replica), expected);
    ASSERT_EQ(index.num_pieces(replica), list.size());
  }
}

}  // namespace
}  // namespace quire
