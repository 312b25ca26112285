// These functions write values as Python does: str(), repr(), json.dumps().
#pragma once

#include <string>

#include "chat/jinja/value/value.h"

namespace quire::jinja {

std::string float_repr(double number);
std::string to_repr(Heap& heap, const Value& value);

// Does str(value); undefined is empty.
std::string to_str(Heap& heap, const Value& value);

// Does the same as to_str, without a copy for what is a string already.
Value as_string(Heap& heap, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Does json.dumps, and fails on what JSON cannot hold.
std::string to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace quire::jinja
