// These are Python's operators, truth values, iteration and element access for template values.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "chat/jinja/value/value.h"

namespace quire::jinja {

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

bool is_true(const Value& value);
bool equals(Heap& heap, const Value& a, const Value& b);
// Computes a < b. Fails for kinds without an order.
bool less_than(Heap& heap, const Value& a, const Value& b);
bool compare(Heap& heap, CompareOp op, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& container, const Value& item);
bool is_same(const Value& a, const Value& b);  // Python's `is`

Value binary(Heap& heap, BinaryOp op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);
Value abs_value(const Value& value);

// Computes len(). Fails where Python has none.
int64_t length_of(const Value& value);

// Returns all items in order, as iter() does. A one-time iterator is used up. Fails for values that
// cannot be iterated.
std::vector<Value> items_of(Heap& heap, const Value& value);
bool is_iterable(const Value& value);

// These compute Jinja's a.name and a[key] in the sandbox. They return undefined when nothing is
// found or access is refused. Attributes of loops and macros belong to the interpreter and are not
// found here.
Value get_attribute(Heap& heap, const Value& object, std::string_view name);
Value get_item(Heap& heap, const Value& object, const Value& key);

// Computes object[start:stop:step]. None stands for an end that is left out.
Value get_slice(Heap& heap, const Value& object, const Value& start, const Value& stop,
                const Value& step);

// Returns the undefined value whose message is "'x' is undefined" or similar.
Value undefined_attribute(Heap& heap, const Value& object, std::string_view name);

// Replaces &, <, >, ', " by entities, as MarkupSafe does.
std::string escape_html(std::string_view text);

}  // namespace quire::jinja
