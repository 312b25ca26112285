#include "chat/jinja/value/format_spec.h"

#include <algorithm>
#include <cmath>

#include "chat/jinja/value/numbers.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

std::string pad(std::string text, const FormatSpec& spec, char default_align,
                size_t num_prefix = 0) {
  const int64_t missing = spec.width - num_code_points(text);
  if (missing <= 0) return text;
  const char align = spec.align == '\0' ? default_align : spec.align;
  const auto fill = [&](int64_t count) {
    std::string out;
    for (int64_t k = 0; k < count; ++k) out += spec.fill;
    return out;
  };
  switch (align) {
    case '<':
      return text + fill(missing);
    case '^':
      return fill(missing / 2) + text + fill(missing - missing / 2);
    case '=':
      return text.substr(0, num_prefix) + fill(missing) + text.substr(num_prefix);
    default:
      return fill(missing) + text;
  }
}

std::string group_digits(const std::string& number, char separator) {
  const size_t end = std::min(number.find_first_not_of("0123456789"), number.size());
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % 3 == 0) out += separator;
    out += number[i];
  }
  return out + number.substr(end);
}

std::string sign_text(bool negative, char sign) {
  if (negative) return "-";
  return sign == '+' ? "+" : sign == ' ' ? " " : "";
}

std::string real_digits(double value, const FormatSpec& spec) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case 'f':
    case 'F':
      return print_real("%.*f", precision, value);
    case 'e':
      return print_real("%.*e", precision, value);
    case 'E':
      return print_real("%.*E", precision, value);
    case '%':
      return print_real("%.*f", precision, value * 100) + "%";
    case 'G':
      return print_real("%.*G", precision, value);
    case 'g':
      return print_real("%.*g", precision, value);
    default:
      if (spec.precision < 0) return float_repr(value);
      std::string out = print_real("%.*g", std::max<int64_t>(precision, 1), value);
      if (out.find_first_of(".e") == std::string::npos) out += ".0";
      return out;
  }
}

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  size_t i = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  if (!text.empty()) {
    size_t after = 0;
    next_code_point(text, after);
    if (after < text.size() && is_align(text[after])) {
      spec.fill = std::string(text.substr(0, after));
      spec.align = text[after];
      i = after + 1;
    } else if (is_align(text[0])) {
      spec.align = text[i++];
    }
  }
  const auto at = [&](char c) { return i < text.size() && text[i] == c; };
  if (at('+') || at('-') || at(' ')) spec.sign = text[i++];
  if (at('#')) {
    spec.alternate = true;
    ++i;
  }
  if (at('0')) {
    ++i;
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
  }
  spec.width = read_number(text, i, kMaxWidth);
  if (at(',') || at('_')) spec.grouping = text[i++];
  if (at('.')) {
    ++i;
    if (i >= text.size() || text[i] < '0' || text[i] > '9')
      fail("Format specifier missing precision");
    spec.precision = read_number(text, i, kMaxPrecision);
  }
  if (i < text.size()) spec.type = text[i++];
  if (i < text.size()) fail("Invalid format specifier '{}'", text);
  return spec;
}

}  // namespace

int64_t read_number(std::string_view text, size_t& i, int64_t limit) {
  int64_t number = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9') {
    number = number * 10 + (text[i++] - '0');
    if (number > limit) fail_limit("format: a width or precision above {}", limit);
  }
  return number;
}

std::string format_integer(int64_t value, const FormatSpec& spec) {
  const bool negative = value < 0;
  const uint64_t size = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits, prefix = sign_text(negative, spec.sign);
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", size);
      break;
    case 'X':
      digits = fmt::format("{:X}", size);
      break;
    case 'o':
      digits = fmt::format("{:o}", size);
      break;
    case 'b':
      digits = fmt::format("{:b}", size);
      break;
    default:
      digits = fmt::format("{}", size);
      break;
  }
  if (spec.alternate && spec.type != '\0' && spec.type != 'd')
    prefix += std::string("0") + spec.type;
  if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping);
  return pad(prefix + digits, spec, '>', prefix.size());
}

std::string format_real(double value, const FormatSpec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const std::string prefix = sign_text(negative, spec.sign);
  std::string digits = real_digits(std::abs(value), spec);
  if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping);
  return pad(prefix + digits, spec, '>', prefix.size());
}

std::string format_text(std::string_view text, const FormatSpec& spec) {
  if (spec.precision >= 0)
    text = text.substr(0, byte_offset(text, spec.precision, num_code_points(text)));
  return pad(std::string(text), spec, '<');
}

std::string format_value(Heap& heap, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return to_str(heap, value);
  const FormatSpec spec = parse_spec(spec_text);
  heap.tick(spec.width / 64);
  const bool whole =
      spec.type == '\0' || std::string_view("dxXobn").find(spec.type) != std::string_view::npos;
  const bool real =
      spec.type == '\0' || std::string_view("eEfFgGn%").find(spec.type) != std::string_view::npos;
  if (value.is_integral() && whole && !(value.is(Kind::kBool) && spec.type == '\0')) {
    if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
    return format_integer(value.as_int(), spec);
  }
  if (value.is_integral() && spec.type == 'c') {
    std::string out;
    if (value.as_int() < 0 || value.as_int() > 0x10ffff) fail("%c arg not in range(0x110000)");
    append_code_point(out, static_cast<char32_t>(value.as_int()));
    return format_text(out, spec);
  }
  if (value.is_number() && real) return format_real(value.as_float(), spec);
  if (value.is_string() && (spec.type == '\0' || spec.type == 's')) {
    if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
    return format_text(value.text(), spec);
  }
  if (value.is_string() || value.is_number()) {
    fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  }
  fail("unsupported format string passed to {}.__format__", type_name(value));
}

}  // namespace quire::jinja
