// Python has two ways to format text: "%s %d" % values, and "{} {name:>8}".format(...).
#pragma once

#include "chat/jinja/value/arguments.h"

namespace quire::jinja {

// Does text % values. Too few or too many values, and conversions that Python lacks, are errors.
Value percent_format(Heap& heap, const Value& text, const Value& values);

// Does text.format(*positional, **named), with the attribute access of the sandbox.
Value brace_format(Heap& heap, const Value& text, const Arguments& arguments);

}  // namespace quire::jinja
