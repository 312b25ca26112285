// These are Jinja's filters and tests, with the Hugging Face tojson.
#pragma once

#include <string_view>

#include "chat/jinja/value/arguments.h"

namespace quire::jinja {

bool has_filter(std::string_view name);
bool has_test(std::string_view name);

// apply_filter() computes value|name(arguments), and apply_test() computes `value is
// name(arguments)`. They fail when there is no such filter or test.
Value apply_filter(Heap& heap, std::string_view name, const Value& value,
                   const Arguments& arguments);
bool apply_test(Heap& heap, std::string_view name, const Value& value, const Arguments& arguments);

// Each table holds the filters of one kind of values; apply_filter() searches both.
using Filter = Value (*)(Heap&, const Value&, const Arguments&);
Filter find_text_filter(std::string_view name);  // nullptr when absent
Filter find_sequence_filter(std::string_view name);

// Follows the path in an attribute argument, such as "a.b", 0 or "messages.0.role".
Value follow_attribute(Heap& heap, const Value& item, const Value& path);

}  // namespace quire::jinja
