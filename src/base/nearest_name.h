// nearest_name() finds the name that a mistyped one was meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire {

// Returns the name of `names` that the fewest edits turn `typed` into (a letter inserted, left out
// or changed, or two neighbours swapped), the first of equals, or nullopt when all are further away
// than a third of the letters. "--" at the beginning and "_" for "-" count as no edit.
std::optional<std::string> nearest_name(std::string_view typed, std::span<const std::string> names);

// Returns "; did you mean NAME?" for the end of an error's message; nothing when no name is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string> names);

}  // namespace quire
