// A Model turns a word into token ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/model/vocab.h"

namespace quire {

// A WordCache stores recently encoded words and their ids in a fixed amount of memory. One thread
// at a time uses it.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 23;
  static constexpr size_t kMaxIds = 8;

  WordCache() : entries_(kNumEntries) {}

  // Appends the ids of `word` and returns true if the cache has it.
  bool find(std::string_view word, std::vector<TokenId>& out) const {
    if (word.size() > kMaxWordBytes) return false;
    const Entry& entry = entries_[slot(word)];
    if (entry.num_ids == 0 || entry.word() != word) return false;
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.num_ids);
    return true;
  }

  // Stores the ids, unless there are none or too many.
  void store(std::string_view word, const TokenId* ids, size_t num_ids);

 private:
  static constexpr size_t kNumEntries = 1 << 14;  // 64 bytes each: 1 MiB
  struct Entry {
    std::array<char, kMaxWordBytes> bytes{};
    uint8_t num_bytes = 0;
    uint8_t num_ids = 0;  // 0 if the entry is free
    std::array<TokenId, kMaxIds> ids{};
    std::string_view word() const { return {bytes.data(), num_bytes}; }
  };
  static size_t slot(std::string_view word);

  std::vector<Entry> entries_;  // direct-mapped: a new word replaces the one in its entry
};

// EncodeScratch is work memory that encoding reuses from word to word. One thread at a time uses
// it.
struct EncodeScratch {
  WordCache cache;
  // BPE keeps a doubly linked list of symbols in these arrays.
  std::vector<TokenId> ids;
  std::vector<int32_t> prev;
  std::vector<int32_t> next;
  std::vector<uint64_t> pairs;
  std::vector<uint64_t> heap;
  // Unigram keeps the best path to each byte here.
  std::vector<double> scores;
  std::vector<int32_t> starts;
  std::vector<TokenId> best_ids;
  std::vector<int32_t> path;
  // The number of steps that merging has taken. Tests check that it stays bounded.
  uint64_t num_merge_steps = 0;
};

// A model is immutable and thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  // Appends the ids of one word of the pre-tokenizer (not empty, below 2 GiB).
  virtual void encode(std::string_view word, EncodeScratch& scratch,
                      std::vector<TokenId>& out) const = 0;
  const Vocab& vocab() const { return vocab_; }

 protected:
  explicit Model(Vocab vocab) : vocab_(std::move(vocab)) {}
  Vocab vocab_;
};

}  // namespace quire
