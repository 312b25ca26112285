// These are the methods of str, list, tuple, dict and the small objects that templates call.
#pragma once

#include <string_view>

#include "chat/jinja/value/arguments.h"

namespace quire::jinja {

bool has_method(Kind kind, std::string_view name);

// Returns whether Python has this method and the immutable sandbox refuses it, such as append,
// update and pop.
bool is_mutator(Kind kind, std::string_view name);

// Precondition: has_method(self.kind(), name).
Value call_method(Heap& heap, const Value& self, std::string_view name, const Arguments& arguments);

// Computes join: str(a) + separator + str(b) …
Value join_strings(Heap& heap, std::string_view separator, const std::vector<Value>& items);

// Computes str.replace; a negative count replaces all occurrences.
std::string replace_text(Heap& heap, std::string_view text, std::string_view old_text,
                         std::string_view new_text, int64_t count);

}  // namespace quire::jinja
