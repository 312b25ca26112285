#include "grammar/testing/test_vocabularies.h"

#include "base/check.h"

namespace quire::grammar::test {

VocabularyParts random_vocabulary(std::mt19937_64& rng, std::string_view alphabet,
                                  size_t num_random) {
  VocabularyParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.token_bytes.push_back(std::string(1, char(byte)));
  for (size_t i = 0; i < num_random; ++i) {
    std::string token;
    for (size_t length = 2 + rng() % 4; length > 0; --length) {
      token += alphabet[rng() % alphabet.size()];
    }
    parts.token_bytes.push_back(token);
  }
  parts.token_bytes.resize(parts.token_bytes.size() + 2);  // unused, end of sequence
  parts.eos_ids = {static_cast<TokenId>(parts.token_bytes.size() - 1)};
  parts.padded_size = static_cast<int32_t>(parts.token_bytes.size() + 13);
  return parts;
}

std::vector<uint32_t> brute_force_mask(Matcher& matcher, const Vocabulary& vocabulary) {
  std::vector<uint32_t> row(vocabulary.mask_words());
  for (TokenId id = 0; id < vocabulary.padded_size(); ++id) {
    if (!matcher.accept(id)) continue;
    matcher.rollback(1);
    row[id / 32] |= 1U << (id % 32);
  }
  return row;
}

bool is_allowed(std::span<const uint32_t> row, TokenId id) {
  return (row[id / 32] >> (id % 32) & 1) != 0;
}

bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  static const Vocabulary empty(VocabularyParts{});
  Matcher matcher(grammar, empty);
  return matcher.accept_bytes(text) && matcher.is_complete();
}

}  // namespace quire::grammar::test
