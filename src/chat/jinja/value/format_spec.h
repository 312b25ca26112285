// These are the format specifiers ("{:>8.3f}") that both of Python's ways to format text share.
// This header is private to format.cc and its parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/jinja/value/heap.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

inline constexpr int64_t kMaxWidth = 100'000;
inline constexpr int64_t kMaxPrecision = 1000;

struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // < > = ^
  char sign = '-';
  bool alternate = false;
  char grouping = '\0';
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

// Reads the digits at text[i] and moves i past them; 0 when there are none. A number above `limit`
// is an error.
int64_t read_number(std::string_view text, size_t& i, int64_t limit);

std::string format_integer(int64_t value, const FormatSpec& spec);
std::string format_real(double value, const FormatSpec& spec);
std::string format_text(std::string_view text, const FormatSpec& spec);
// Computes format(value, spec_text).
std::string format_value(Heap& heap, const Value& value, std::string_view spec_text);

}  // namespace quire::jinja
