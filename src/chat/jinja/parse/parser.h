// parse_template() turns template text into a tree.
#pragma once

#include <string_view>

#include "chat/jinja/parse/ast.h"

namespace quire::jinja {

// Throws an Error with the line of the mistake.
Template parse_template(std::string_view source);

}  // namespace quire::jinja
