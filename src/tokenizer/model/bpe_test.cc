#include "tokenizer/model/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tokenizer/tokenizer.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

// RandomBpe is a vocabulary over {a, b, c} with random merges.
struct RandomBpe {
  std::unique_ptr<BpeModel> model;
  std::vector<BpeModel::Merge> merges;
  Vocab vocab;
};

Vocab copy_of(const Vocab& vocab) {
  Vocab copy;
  for (TokenId id = 0; id < vocab.size(); ++id) EXPECT_TRUE(copy.add(vocab.piece(id), id).ok());
  return copy;
}

RandomBpe random_bpe(unsigned seed, int num_merges, BpeOptions options = {}) {
  std::mt19937 rng(seed);
  RandomBpe bpe;
  for (const char* piece : {"a", "b", "c"})
    EXPECT_TRUE(bpe.vocab.add(piece, bpe.vocab.size()).ok());
  for (int i = 0; i < num_merges; ++i) {
    const auto left = static_cast<TokenId>(rng() % static_cast<unsigned>(bpe.vocab.size()));
    const auto right = static_cast<TokenId>(rng() % static_cast<unsigned>(bpe.vocab.size()));
    const std::string joined =
        std::string(bpe.vocab.piece(left)) + std::string(bpe.vocab.piece(right));
    if (bpe.vocab.find(joined) || joined.size() > 40) continue;
    const TokenId id = bpe.vocab.size();
    EXPECT_TRUE(bpe.vocab.add(joined, id).ok());
    bpe.merges.push_back({left, right, id, static_cast<uint32_t>(bpe.merges.size())});
  }
  bpe.model = BpeModel::make(copy_of(bpe.vocab), bpe.merges, std::move(options)).value();
  return bpe;
}

// Encodes by the definition: applies the lowest-ranked merge, the leftmost first, until none
// applies.
std::vector<TokenId> encode_naively(const RandomBpe& bpe, std::string_view word) {
  std::vector<TokenId> ids;
  for (const char c : word) ids.push_back(*bpe.vocab.find(std::string(1, c)));
  while (true) {
    const BpeModel::Merge* best = nullptr;
    size_t where = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (const BpeModel::Merge& merge : bpe.merges) {
        if (merge.left != ids[i] || merge.right != ids[i + 1]) continue;
        if (best == nullptr || merge.rank < best->rank) {
          best = &merge;
          where = i;
        }
      }
    }
    if (best == nullptr) return ids;
    ids[where] = best->result;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(where) + 1);
  }
}

TEST(Bpe, AgreesWithTheDefinitionOnShortAndLongWords) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const RandomBpe bpe = random_bpe(seed, 25);
    std::mt19937 rng(seed + 1000);
    EncodeScratch scratch;
    for (int i = 0; i < 40; ++i) {
      std::string word;
      const size_t size = 1 + rng() % (i % 4 == 0 ? 150 : 20);
      while (word.size() < size) word += "abc"[rng() % 3];
      std::vector<TokenId> ids;
      bpe.model->encode(word, scratch, ids);
      ASSERT_EQ(ids, encode_naively(bpe, word)) << "seed " << seed << ": " << word;
    }
  }
}

TEST(Bpe, LongWordsTakeFewSteps) {
  const RandomBpe bpe = random_bpe(3, 40);
  for (const std::string unit : {"a", "ab", "abcacb"}) {
    std::string word;
    while (word.size() < 1'000'000) word += unit;
    EncodeScratch scratch;
    std::vector<TokenId> ids;
    bpe.model->encode(word, scratch, ids);
    // Each symbol enters the heap once and each merge adds at most two entries.
    EXPECT_LE(scratch.num_merge_steps, 3 * word.size());
    EXPECT_FALSE(ids.empty());
  }
}

TEST(Bpe, TheCacheChangesNothing) {
  const RandomBpe bpe = random_bpe(5, 30);
  EncodeScratch warm;
  std::mt19937 rng(9);
  for (int i = 0; i < 5000; ++i) {
    std::string word;
    const size_t size = 1 + rng() % 30;
    while (word.size() < size) word += "abc"[rng() % 3];
    EncodeScratch cold;
    std::vector<TokenId> expected;
    std::vector<TokenId> ids;
    bpe.model->encode(word, cold, expected);
    bpe.model->encode(word, warm, ids);
    ASSERT_EQ(ids, expected) << word;
  }
}

TEST(Bpe, UnknownCharactersAreDroppedFusedOrSpelledInBytes) {
  Vocab vocab;
  ASSERT_TRUE(vocab.add("<unk>", 0).ok());
  ASSERT_TRUE(vocab.add("a", 1).ok());
  const auto encode = [&](BpeOptions options) {
    auto model = BpeModel::make(copy_of(vocab), {}, std::move(options)).value();
    EncodeScratch scratch;
    std::vector<TokenId> ids;
    model->encode("axya", scratch, ids);
    return ids;
  };
  EXPECT_THAT(encode({}), ElementsAre(1, 1));
  EXPECT_THAT(encode({.unk_id = 0}), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(encode({.unk_id = 0, .fuse_unk = true}), ElementsAre(1, 0, 1));
  ASSERT_TRUE(vocab.add("<0x78>", 2).ok());
  EXPECT_THAT(encode({.unk_id = 0, .byte_fallback = true}), ElementsAre(1, 2, 0, 1));
}

TEST(Bpe, UserDefinedPiecesAreNeverMerged) {
  RandomBpe bpe = random_bpe(0, 0);
  const TokenId ab = bpe.vocab.size();
  ASSERT_TRUE(bpe.vocab.add("ab", ab).ok());
  ASSERT_TRUE(bpe.vocab.add("abc", ab + 1).ok());
  const auto model =
      BpeModel::make(copy_of(bpe.vocab), {{ab, 2, ab + 1, 0}}, {.user_defined = {ab}}).value();
  EncodeScratch scratch;
  std::vector<TokenId> ids;
  model->encode("abc", scratch, ids);
  EXPECT_THAT(ids, ElementsAre(ab, 2));
}

TEST(Bpe, MergesFromScoresPreferHigherScores) {
  Vocab vocab;
  for (const char* piece : {"a", "b", "c", "ab", "bc"})
    ASSERT_TRUE(vocab.add(piece, vocab.size()).ok());
  const auto merges = merges_from_scores(vocab, {0, 0, 0, -2, -1}, {true, true, true, true, true});
  const auto model = BpeModel::make(std::move(vocab), merges, {}).value();
  EncodeScratch scratch;
  std::vector<TokenId> ids;
  model->encode("abc", scratch, ids);
  EXPECT_THAT(ids, ElementsAre(0, 4));
}

TEST(Bpe, RefusesMergesOfUnknownPieces) {
  Vocab vocab;
  ASSERT_TRUE(vocab.add("a", 0).ok());
  const auto model = BpeModel::make(std::move(vocab), {{0, 0, 7, 0}}, {});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().message(), "merges: rank 0 names an unknown piece");
}

}  // namespace
}  // namespace quire
