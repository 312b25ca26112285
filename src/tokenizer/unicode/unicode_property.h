// These functions look up characters by property name, as \p{...} of a regular expression does, and
// by script. The data are those of Unicode 16.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quire {

// A range of code points that includes both ends.
struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;
};

// Returns the characters of a general category ("L", "Lu") or of a script ("Han", "Hani") as
// ascending ranges that do not touch, or nullopt for another name. Case, spaces and underscores in
// names are ignored. A script contains the characters whose own script it is, not those that it
// also uses (Script_Extensions).
std::optional<std::vector<CodePointRange>> property_ranges(std::string_view name);

// Returns those characters of a general category that Unicode 14 had not assigned, or nullopt for
// another name.
std::optional<std::vector<CodePointRange>> newer_category_ranges(std::string_view name);

// Returns the characters that are in none of `ranges` (ascending, not touching).
std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges);

// Returns a number for each script that the UnicodeScripts pre-tokenizer splits by, with Hiragana,
// Katakana and the prolonged sound mark as Han. Returns nullopt for characters that split from no
// script: a space, and those for which the tokenizers library has no script.
std::optional<uint32_t> splitting_script(char32_t c);

}  // namespace quire
