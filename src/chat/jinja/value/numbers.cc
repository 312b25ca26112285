#include "chat/jinja/value/numbers.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "chat/jinja/value/heap.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) fail("int() base must be >= 2 and <= 36, or 0");
  text = strip(text, Side::kBoth);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == 0 || base == marked)) {
      base = marked;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return {};
    base = 10;
  }
  if (text.empty()) return std::nullopt;
  int64_t number = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(number, base, &number) ||
        __builtin_sub_overflow(number, digit, &number)) {
      fail("integers beyond 64 bits are not supported");
    }
    after_digit = true;
  }
  if (!after_digit) return std::nullopt;
  if (!negative && number == INT64_MIN) fail("integers beyond 64 bits are not supported");
  return negative ? number : -number;
}

std::optional<double> parse_real(std::string_view text) {
  text = strip(text, Side::kBoth);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain += text[i];
    } else if (i == 0 || i + 1 == text.size() || digit_value(text[i - 1]) > 9 ||
               digit_value(text[i + 1]) > 9) {
      return std::nullopt;
    }
  }
  std::string lower = to_lower(plain);
  const std::string_view word = lower.starts_with("-") || lower.starts_with("+")
                                    ? std::string_view(lower).substr(1)
                                    : std::string_view(lower);
  const bool named = word == "inf" || word == "infinity" || word == "nan";
  if (!named &&
      (plain.empty() || plain.find_first_not_of("0123456789+-.eE") != std::string::npos)) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double number = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return number;
}

double round_real(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 320) return number;
  if (digits < -310) return std::copysign(0.0, number);
  if (digits >= 0) {
    return std::strtod(print_real("%.*f", digits, number).c_str(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / scale) * scale;
}

std::string print_real(const char* format, int64_t precision, double value) {
  char small[128];
  const int size = std::snprintf(small, sizeof(small), format, static_cast<int>(precision), value);
  if (size < static_cast<int>(sizeof(small))) return small;
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, static_cast<int>(precision), value);
  out.pop_back();
  return out;
}

}  // namespace quire::jinja
