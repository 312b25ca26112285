// Python's two ways to format text: "%s %d" % values, and "{} {name:>8}".format(...).
#pragma once

#include <optional>
#include <string_view>

#include "chat/jinja_arguments.h"

namespace quire::jinja {

// text % values. Fails on too few or too many values and on conversions Python lacks.
Value percent_format(Heap& heap, const Value& text, const Value& values);

// text.format(*positional, **named), with the attribute access of the sandbox.
Value brace_format(Heap& heap, const Value& text, const Arguments& arguments);

// int(text, base) and float(text); nullopt where Python raises ValueError. Fails above 64 bits.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_real(std::string_view text);

// round(number, digits) for a float: correctly rounded, half to even.
double round_real(double number, int64_t digits);

}  // namespace quire::jinja
