// These functions find properties of characters by name, as \p{...} of a regular expression asks
// for them, and scripts. The data are those of Unicode 16.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quire {

// Both ends belong to the range.
struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;
};

// Returns the characters of a general category ("L", "Lu") or of a script ("Han", "Hani"),
// ascending and apart; nullopt for another name. Case, spaces and underscores in names do not
// count. A script has the characters whose own script it is, not those that it also uses
// (Script_Extensions).
std::optional<std::vector<CodePointRange>> property_ranges(std::string_view name);

// Returns those characters of a general category that Unicode 14 had not assigned; nullopt for
// another name.
std::optional<std::vector<CodePointRange>> newer_category_ranges(std::string_view name);

// Returns the characters that are in none of `ranges` (ascending and apart).
std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges);

// The UnicodeScripts pre-tokenizer tells these scripts apart: returns a number for each script,
// where Hiragana, Katakana and the prolonged sound mark count as Han. nullopt goes with every
// script: a space, and characters for which the tokenizers library has no script.
std::optional<uint32_t> splitting_script(char32_t c);

}  // namespace quire
