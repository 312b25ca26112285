// These helpers make small vocabularies, and masks by a slow method that is obviously right, for
// tests.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace quire::grammar::test {

// Returns a vocabulary of all 256 bytes, `num_random` random strings over `alphabet`, one unused
// id, and end of sequence as the last id.
VocabularyParts random_vocabulary(std::mt19937_64& rng, std::string_view alphabet,
                                  size_t num_random);

// Returns the mask of `matcher`, found by trying every token.
std::vector<uint32_t> brute_force_mask(Matcher& matcher, const Vocabulary& vocabulary);

bool is_allowed(std::span<const uint32_t> row, TokenId id);

// Returns whether the language contains `text`, which is read byte by byte.
bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text);

}  // namespace quire::grammar::test
