#include "draft/suffix_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

// Returns the length of the longest end of `text` that also occurs earlier in it, by trying all.
int32_t longest_end(const Tokens& text) {
  for (auto n = static_cast<std::ptrdiff_t>(text.size()) - 1; n > 0; --n) {
    if (std::search(text.begin(), text.end() - 1, text.end() - n, text.end()) != text.end() - 1)
      return static_cast<int32_t>(n);
  }
  return 0;
}

TEST(SuffixAutomaton, FindsTheLongestEndAtEveryToken) {
  std::mt19937 rng(3);
  for (int round = 0; round < 200; ++round) {
    const uint32_t num_ids = 1 + rng() % 4;
    SuffixAutomaton automaton;
    Tokens text;
    for (int i = 0; i < 80; ++i) {
      text.push_back(static_cast<TokenId>(rng() % num_ids));
      automaton.append(text.back());
      const SuffixAutomaton::Match match = automaton.longest_match();
      ASSERT_EQ(match.length, longest_end(text)) << "round " << round << " token " << i;
      if (match.length == 0) continue;
      ASSERT_GE(match.end, match.length);
      ASSERT_LT(match.end, std::ssize(text));
      ASSERT_TRUE(std::equal(text.end() - match.length, text.end(),
                             text.begin() + match.end - match.length));
    }
  }
}

TEST(SuffixAutomaton, TakesLessThan400BytesPerToken) {
  std::mt19937 rng(4);
  for (const uint32_t num_ids : {1u, 5u, 50'000u}) {
    SuffixAutomaton automaton;
    for (int i = 0; i < 8192; ++i) automaton.append(static_cast<TokenId>(rng() % num_ids));
    EXPECT_LT(automaton.memory_bytes(), 400 * 8192) << num_ids;
  }
}

Request make_request(uint64_t id, Tokens tokens) {
  Request request;
  request.id = RequestId(id);
  request.num_prompt_tokens = static_cast<int32_t>(tokens.size());
  request.token_ids = std::move(tokens);
  return request;
}

Tokens propose(SuffixDrafter& drafter, const Request& request, int32_t max_drafts) {
  DraftQuery query{.request = &request, .max_drafts = max_drafts};
  drafter.propose({&query, 1});
  return {query.token_ids.begin(), query.token_ids.end()};
}

TEST(SuffixDrafter, FollowsItsRequests) {
  SuffixDrafter drafter({});
  Request a = make_request(1, {1, 2, 3, 4, 5, 1, 2, 3});
  const Request b = make_request(2, {7, 8, 7});
  EXPECT_EQ(propose(drafter, a, 9), (Tokens{4, 5, 1}));  // as many as match
  EXPECT_EQ(propose(drafter, a, 2), (Tokens{4, 5}));
  EXPECT_EQ(propose(drafter, b, 9), (Tokens{8}));
  a.token_ids.push_back(4);
  EXPECT_EQ(propose(drafter, a, 9), (Tokens{5, 1, 2, 3}));
  a.token_ids.push_back(9);
  EXPECT_EQ(propose(drafter, a, 9), Tokens{});
  drafter.forget(RequestId(2));
  drafter.forget(RequestId(1));
  const int64_t of_answers = drafter.memory_bytes();
  drafter.forget(RequestId(1));
  EXPECT_EQ(drafter.memory_bytes(), of_answers);
  EXPECT_LT(of_answers, 4096);  // the outputs that have ended: two tokens
}

TEST(SuffixDrafter, KeepsToItsMemory) {
  SuffixDrafter drafter({.max_memory_bytes = 4096});
  const Request small = make_request(1, {1, 2, 1});
  const Request large = make_request(2, Tokens(100, 3));
  EXPECT_EQ(propose(drafter, small, 4), (Tokens{2}));
  EXPECT_EQ(propose(drafter, large, 4), Tokens{});
}

}  // namespace
}  // namespace quire
