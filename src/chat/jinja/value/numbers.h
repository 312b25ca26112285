// These functions read Python's numbers from text, and write them with a C format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::jinja {

// They do int(text, base) and float(text). nullopt stands where Python raises ValueError; a number
// above 64 bits is an error.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_real(std::string_view text);

// Does round(number, digits) for a float: correctly rounded, half to even.
double round_real(double number, int64_t digits);

// `format` has one "%.*" conversion of a double.
std::string print_real(const char* format, int64_t precision, double value);

}  // namespace quire::jinja
