// These functions write values as Python does: str(), repr(), json.dumps().
#pragma once

#include <string>

#include "chat/jinja/value/value.h"

namespace quire::jinja {

std::string float_repr(double number);
std::string to_repr(Heap& heap, const Value& value);

// Computes str(value). Undefined gives an empty text.
std::string to_str(Heap& heap, const Value& value);

// Does the same as to_str, without copying a value that is a string.
Value as_string(Heap& heap, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string indent;  // for one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Computes json.dumps. Fails for values that JSON cannot hold.
std::string to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace quire::jinja
