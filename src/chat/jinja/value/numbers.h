// These functions parse Python's numbers and print numbers with a C format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::jinja {

// They compute int(text, base) and float(text). nullopt: Python raises ValueError. A number beyond
// 64 bits is an error.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_real(std::string_view text);

// Computes round(number, digits) for a float: correctly rounded, half to even.
double round_real(double number, int64_t digits);

// `format` has one "%.*" conversion of a double.
std::string print_real(const char* format, int64_t precision, double value);

}  // namespace quire::jinja
