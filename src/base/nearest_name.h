// nearest_name() finds the name that a mistyped one was probably meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire {

// Returns the name of `names` that is the fewest edits from `typed` (a letter inserted, left out or
// changed, or two neighbours swapped), the first if there are several, or nullopt if all need edits
// for more than a third of the letters. "--" at the beginning, and "_" for "-", count as no edit.
std::optional<std::string> nearest_name(std::string_view typed, std::span<const std::string> names);

// Returns "; did you mean NAME?" for the end of an error's message, or nothing if no name is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string> names);

}  // namespace quire
