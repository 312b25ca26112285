#pragma once

#include <optional>
#include <string_view>

namespace quire::grammar {

// Returns an ECMA-262 expression for the whole text of a JSON Schema format, or nullopt if the
// specification does not define the format or its check is not regular. Such a format is an
// annotation.
std::optional<std::string_view> format_pattern(std::string_view format);

}  // namespace quire::grammar
