// Python's two ways to format text: "%s %d" % values, and "{} {name:>8}".format(...).
#pragma once

#include "chat/jinja/value/arguments.h"

namespace quire::jinja {

// text % values. Fails on too few or too many values and on conversions Python lacks.
Value percent_format(Heap& heap, const Value& text, const Value& values);

// text.format(*positional, **named), with the attribute access of the sandbox.
Value brace_format(Heap& heap, const Value& text, const Arguments& arguments);

}  // namespace quire::jinja
