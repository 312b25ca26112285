// LarkSyntax is the syntax tree of a Lark grammar, before its names and terminals are resolved.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::grammar {

enum class LarkKind : uint8_t {
  kSequence,
  kAlternatives,
  kAnd,      // of terminals
  kNot,      // of a terminal
  kRepeat,   // min to max times
  kString,   // text: a regular expression that matches the string
  kRegex,    // text
  kRange,    // min to max: characters
  kName,     // text: the name of a rule or terminal
  kSpecial,  // text: that of a special token
  kJson,     // text: a JSON Schema
};

struct LarkNode {
  LarkKind kind = LarkKind::kSequence;
  uint32_t min = 0, max = 0;
  bool ignores_case = false;
  size_t line = 0;
  std::string text{};
  std::vector<uint32_t> children{};  // indices in LarkSyntax::nodes
};

struct LarkSyntax {
  std::vector<LarkNode> nodes;
  std::map<std::string, uint32_t> definitions;  // name to node
  std::map<std::string, std::string> imports;   // name in this grammar to name in Lark's `common`
  std::vector<uint32_t> ignored;
};

// Returns true for upper case. Terminals are written in upper case, rules in lower case.
bool is_terminal_name(std::string_view name);

// Parses a grammar with bounded nesting. Errors name the line.
Result<LarkSyntax> parse_lark(std::string_view text);

}  // namespace quire::grammar
