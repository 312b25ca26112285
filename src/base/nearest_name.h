// The name that a mistyped one was meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire {

// Of `names`, the one that the fewest edits turn `typed` into (a letter inserted, left out,
// changed, or two neighbours swapped); the first of equals. nullopt: all are further away than a
// third of the letters. "--" at the beginning and "_" for "-" count as no edit.
std::optional<std::string> nearest_name(std::string_view typed, std::span<const std::string> names);

}  // namespace quire
