// The tokens that a step may sample under a rule beside SamplingParams, which is a grammar.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Rows of bits: bit t % 32 of word t / 32 is 1 if token t may be sampled. Bits at and after
// vocab_size have no meaning.
struct TokenMasks {
  int32_t num_words = 0;        // words per row: words_per_mask(vocab_size); 0 if there are no rows
  std::vector<uint32_t> words;  // [rows, num_words]

  int32_t num_rows() const {
    return num_words == 0 ? 0 : static_cast<int32_t>(words.size()) / num_words;
  }
  std::span<const uint32_t> row(int32_t index) const {
    return std::span(words).subspan(static_cast<size_t>(index) * static_cast<size_t>(num_words),
                                    static_cast<size_t>(num_words));
  }
  void clear() {
    num_words = 0;
    words.clear();
  }
};

constexpr int32_t words_per_mask(int32_t vocab_size) { return (vocab_size + 31) / 32; }

// Returns whether `mask` allows the token. An empty mask allows every token.
inline bool allows(std::span<const uint32_t> mask, int32_t token_id) {
  const auto id = static_cast<uint32_t>(token_id);
  return mask.empty() || (mask[id / 32] >> (id % 32) & 1u) != 0;
}

}  // namespace quire
