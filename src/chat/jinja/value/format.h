// These are Python's two ways to format text: "%s %d" % values, and "{} {name:>8}".format(...).
#pragma once

#include "chat/jinja/value/arguments.h"

namespace quire::jinja {

// Computes text % values. Too few or too many values, and conversions that Python lacks, are
// errors.
Value percent_format(Heap& heap, const Value& text, const Value& values);

// Computes text.format(*positional, **named). Attributes are read as the sandbox allows.
Value brace_format(Heap& heap, const Value& text, const Arguments& arguments);

}  // namespace quire::jinja
