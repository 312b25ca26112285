#include "draft/shared_suffixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "draft/suffix_drafter.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

// Returns the length of the longest end of the text, up to kReach tokens, that occurs in one of the
// outputs.
int32_t longest_end(const Tokens& text, const std::vector<Tokens>& outputs) {
  auto n = std::min<std::ptrdiff_t>(std::ssize(text), SharedSuffixes::kReach);
  for (; n > 0; --n) {
    const auto stands_in = [&](const Tokens& output) {
      return std::search(output.begin(), output.end(), text.end() - n, text.end()) != output.end();
    };
    if (std::ranges::any_of(outputs, stands_in)) break;
  }
  return static_cast<int32_t>(n);
}

// Returns whether an output contains the last `length` tokens of the text followed by
// `continuation`, as far as the output goes.
bool was_said(const Tokens& text, int32_t length, std::span<const TokenId> continuation,
              const std::vector<Tokens>& outputs) {
  Tokens piece(text.end() - length, text.end());
  piece.insert(piece.end(), continuation.begin(), continuation.end());
  return std::ranges::any_of(outputs, [&](const Tokens& output) {
    return output.size() >= piece.size() &&
           std::equal(piece.begin(), piece.end(), output.end() - std::ssize(piece));
  });
}

// Compares with a search through all outputs, for texts of several salts that grow while requests
// end.
TEST(SharedSuffixes, FindTheLongestEndAmongTheSaltsOwn) {
  std::mt19937 random(5);
  SharedSuffixes shared(int64_t{64} << 20);
  const std::string salts[] = {"", "a", "b"};
  std::map<std::string, std::vector<Tokens>> outputs;
  std::vector<Tokens> texts(6);
  std::vector<SharedSuffixes::Reader> readers(6);
  for (int i = 0; i < 3000; ++i) {
    if (random() % 8 == 0) {
      Tokens output(random() % 40);
      for (TokenId& id : output) id = static_cast<TokenId>(random() % 3);
      const std::string& salt = salts[random() % 3];
      shared.add(salt, output);
      outputs[salt].push_back(output);
      continue;
    }
    const size_t at = random() % texts.size();
    for (uint32_t more = random() % 4; more > 0; --more)
      texts[at].push_back(static_cast<TokenId>(random() % 3));
    const std::string& salt = salts[at % 3];
    const SharedSuffixes::Match match = shared.find(salt, texts[at], readers[at]);
    ASSERT_EQ(match.length, longest_end(texts[at], outputs[salt]));
    if (match.length > 0) {
      ASSERT_TRUE(was_said(texts[at], match.length, match.continuation, outputs[salt]));
    }
  }
}

TEST(SharedSuffixes, KeepToTheirMemory) {
  constexpr int64_t kMaxBytes = 200'000;
  std::mt19937 random(6);
  SharedSuffixes shared(kMaxBytes);
  std::vector<Tokens> outputs;
  SharedSuffixes::Reader reader;
  int32_t num_found = 0;
  for (int i = 0; i < 3000; ++i) {
    Tokens output(random() % 60);
    for (TokenId& id : output) id = static_cast<TokenId>(random() % 1000);
    const std::string salt = "tenant " + std::to_string(random() % 3);
    shared.add(salt, output);
    if (salt == "tenant 0") outputs.push_back(output);
    ASSERT_LE(shared.memory_bytes(), kMaxBytes);
    if (outputs.empty() || outputs.back().size() < 10) continue;
    // The latest outputs must be found; the first ones may have been removed.
    const Tokens text(outputs.back().begin(), outputs.back().begin() + 8);
    SharedSuffixes::Reader fresh;
    const SharedSuffixes::Match match = shared.find("tenant 0", text, fresh);
    if (salt == "tenant 0") {
      ASSERT_EQ(match.length, 8);
    }
    if (match.length > 0) {
      ASSERT_TRUE(was_said(text, match.length, match.continuation, outputs));
      ++num_found;
    }
  }
  EXPECT_GT(num_found, 1000);
  EXPECT_GT(shared.num_volumes(), 1u);
}

Request request_of(uint64_t id, Tokens prompt, std::string salt) {
  Request request;
  request.id = RequestId(id);
  request.num_prompt_tokens = static_cast<int32_t>(prompt.size());
  request.token_ids = std::move(prompt);
  request.cache_keys.salt = std::move(salt);
  return request;
}

DraftQuery ask(SuffixDrafter& drafter, const Request& request) {
  DraftQuery query{.request = &request, .max_drafts = 16};
  drafter.propose({&query, 1});
  return query;
}

// The output of a request that has ended gives drafts to others of its salt, and to nobody else.
TEST(SharedSuffixes, AnswersDraftForTheirOwnSalt) {
  SuffixDrafter drafter({});
  Request first = request_of(1, {1, 2, 3}, "a");
  EXPECT_TRUE(ask(drafter, first).token_ids.empty());
  for (const TokenId id : {10, 11, 12, 13, 14}) first.token_ids.push_back(id);
  ask(drafter, first);
  drafter.forget(first.id);
  Request same = request_of(2, {7, 10, 11}, "a");
  const DraftQuery query = ask(drafter, same);
  EXPECT_EQ(Tokens(query.token_ids.begin(), query.token_ids.end()), (Tokens{12, 13}));
  EXPECT_GE(query.draft_class.source, SuffixDrafter::kSharedSource);
  EXPECT_LT(query.draft_class.source, kMaxDraftSources);
  EXPECT_FALSE(query.draft_class.from_prediction);
  for (const std::string salt : {"", "b"})
    EXPECT_TRUE(ask(drafter, request_of(3, {7, 10, 11}, salt)).token_ids.empty()) << salt;
  // A prompt is no output of the model.
  EXPECT_TRUE(ask(drafter, request_of(5, {7, 1, 2}, "a")).token_ids.empty());
}

// Of ends of equal length, the one in the request's own text is used.
TEST(SharedSuffixes, OwnTextGoesBeforeOfEquals) {
  SuffixDrafter drafter({});
  Request first = request_of(1, {1}, "");
  for (const TokenId id : {10, 11, 12}) first.token_ids.push_back(id);
  ask(drafter, first);
  drafter.forget(first.id);
  const Request own = request_of(2, {10, 11, 20, 10, 11}, "");
  const DraftQuery query = ask(drafter, own);
  EXPECT_EQ(Tokens(query.token_ids.begin(), query.token_ids.end()), (Tokens{20, 10}));
  EXPECT_LT(query.draft_class.source, SuffixDrafter::kSharedSource);
}

}  // namespace
}  // namespace quire
