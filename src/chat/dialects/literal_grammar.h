// Grammars (EBNF) of arguments that are neither JSON nor tags: Python's and Gemma's.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/dialects/dialect.h"
#include "chat/reply/tool_types.h"

namespace quire {

// A parameter of a tool.
struct Parameter {
  std::string name;
  boost::json::object schema;
  uint8_t types = kTypeUndeclared;  // bits of ValueTypes
  bool is_required = false;
};

// What a tool's schema declares; nothing: a call may have any parameters.
using Parameters = std::optional<std::vector<Parameter>>;

// a="x", b=[1]: the parameters in their order, those that are not required may be left out. Values
// follow their declared types and enums; what they hold is any literal.
std::string python_arguments_grammar(const Parameters& parameters);
// a:<|"|>x<|"|>,b:[1]
std::string gemma_arguments_grammar(const GemmaCallStyle& style, const Parameters& parameters);

}  // namespace quire
