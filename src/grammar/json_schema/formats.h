#pragma once

#include <optional>
#include <string_view>

namespace quire::grammar {

// An ECMA-262 expression for the whole text of a JSON Schema format; nothing for a name that the
// specification does not define or whose check is not regular: such a format is an annotation.
std::optional<std::string_view> format_pattern(std::string_view format);

}  // namespace quire::grammar
