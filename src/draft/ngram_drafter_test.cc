#include "draft/ngram_drafter.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

Tokens propose(NgramDrafter::Options options, const Tokens& text, int32_t max_drafts) {
  NgramDrafter drafter(options);
  Request request;
  request.token_ids = text;
  DraftQuery query{.request = &request, .max_drafts = max_drafts};
  drafter.propose({&query, 1});
  return {query.token_ids.begin(), query.token_ids.end()};
}

TEST(NgramDrafter, ContinuesTheLongestEndFromItsEarliestPlace) {
  const NgramDrafter::Options options{.prompt_lookup_min = 2, .prompt_lookup_max = 3};
  EXPECT_EQ(propose(options, {1, 2, 3, 4, 5, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(propose(options, {9, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3}, 4), (Tokens{8, 1, 2, 3}));
  EXPECT_EQ(propose(options, {2, 3, 7, 2, 3, 8, 2, 3}, 1), (Tokens{7}));
  EXPECT_EQ(propose(options, {1, 3, 7, 2, 3}, 4), Tokens{});  // one token in common
  EXPECT_EQ(propose(options, {5}, 4), Tokens{});
  EXPECT_EQ(propose(options, {4, 4, 4, 4}, 9), (Tokens{4}));
}

// Compares with a search through all places and lengths.
TEST(NgramDrafter, AgreesWithAPlainSearch) {
  std::mt19937 rng(1);
  for (int round = 0; round < 3000; ++round) {
    NgramDrafter::Options options;
    options.prompt_lookup_min = 1 + static_cast<int32_t>(rng() % 4);
    options.prompt_lookup_max = options.prompt_lookup_min + static_cast<int32_t>(rng() % 4);
    Tokens text(1 + rng() % 40);
    for (TokenId& id : text) id = static_cast<TokenId>(rng() % (2 + round % 3));
    Tokens want;
    for (int32_t n = options.prompt_lookup_max; n >= options.prompt_lookup_min; --n) {
      const auto end = text.end() - std::min<std::ptrdiff_t>(n, std::ssize(text));
      if (std::ssize(text) <= n) continue;
      const auto found = std::search(text.begin(), text.end() - 1, end, text.end());
      if (found == text.end() - 1) continue;
      const auto next = found + n;
      want.assign(next, next + std::min<std::ptrdiff_t>(5, text.end() - next));
      break;
    }
    EXPECT_EQ(propose(options, text, 5), want) << "round " << round;
  }
}

}  // namespace
}  // namespace quire
