// These functions write grammars (EBNF) of arguments that are neither JSON nor tags: those of
// Python's and Gemma's calls.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
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

// The parameters that a tool's schema declares; nullopt: a call may have any parameters.
using Parameters = std::optional<std::vector<Parameter>>;

// Returns the grammar of arguments such as a="x", b=[1]. The parameters come in their order, and
// those that are not required may be left out. Values follow their declared types and enums; inside
// a list or an object any literal is allowed.
Result<std::string> python_arguments_grammar(const Parameters& parameters);
// Returns the grammar of arguments such as a:<|"|>x<|"|>,b:[1]. kInvalidArgument: an enum has a
// value that contains the style's quote, so that no call could have it.
Result<std::string> gemma_arguments_grammar(const GemmaCallStyle& style,
                                            const Parameters& parameters);

}  // namespace quire
