#include "chat/jinja_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "chat/jinja_operators.h"
#include "chat/jinja_print.h"
#include "chat/jinja_text.h"

namespace quire::jinja {
namespace {

constexpr int64_t kMaxWidth = 100'000;
constexpr int64_t kMaxPrecision = 1000;

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > = ^
  char sign = '-';
  bool alternate = false;
  char grouping = '\0';
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

int64_t read_number(std::string_view text, size_t& i, int64_t limit) {
  int64_t number = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9') {
    number = number * 10 + (text[i++] - '0');
    if (number > limit) fail_limit("format: a width or precision above {}", limit);
  }
  return number;
}

std::string pad(std::string text, const Spec& spec, char default_align, size_t num_prefix = 0) {
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

std::string format_integer(int64_t value, const Spec& spec) {
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

std::string print_real(const char* format, int64_t precision, double value) {
  char small[128];
  const int size = std::snprintf(small, sizeof(small), format, static_cast<int>(precision), value);
  if (size < static_cast<int>(sizeof(small))) return small;
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, static_cast<int>(precision), value);
  out.pop_back();
  return out;
}

std::string real_digits(double value, const Spec& spec) {
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

std::string format_real(double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const std::string prefix = sign_text(negative, spec.sign);
  std::string digits = real_digits(std::abs(value), spec);
  if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping);
  return pad(prefix + digits, spec, '>', prefix.size());
}

std::string format_text(std::string_view text, const Spec& spec) {
  if (spec.precision >= 0)
    text = text.substr(0, byte_offset(text, spec.precision, num_code_points(text)));
  return pad(std::string(text), spec, '<');
}

Spec parse_spec(std::string_view text) {
  Spec spec;
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

std::string format_value(Heap& heap, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return to_str(heap, value);
  const Spec spec = parse_spec(spec_text);
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

// Walks one "{...}" template; nested fields occur in format specifiers only, two levels in all.
class BraceFormatter {
 public:
  BraceFormatter(Heap& heap, const Arguments& arguments) : heap_(heap), arguments_(arguments) {}

  std::string format(std::string_view text, int depth) {
    if (depth > 2) fail("Max string recursion exceeded");
    std::string out;
    for (size_t i = 0; i < text.size();) {
      const char c = text[i];
      const bool doubled = i + 1 < text.size() && text[i + 1] == c;
      if ((c == '{' || c == '}') && doubled) {
        out += c;
        i += 2;
      } else if (c == '{') {
        const size_t end = field_end(text, i + 1);
        out += field(text.substr(i + 1, end - i - 1), depth);
        i = end + 1;
      } else if (c == '}') {
        fail("Single '}}' encountered in format string");
      } else {
        out += c;
        ++i;
      }
      heap_.check_room(out.size());
    }
    heap_.tick_bytes(out.size());
    return out;
  }

 private:
  static size_t field_end(std::string_view text, size_t i) {
    int open = 1;
    for (; i < text.size(); ++i) {
      if (text[i] == '{') ++open;
      if (text[i] == '}' && --open == 0) return i;
    }
    fail("expected '}}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    size_t name_end = 0;  // a "[...]" may hold ':' and '!'
    for (bool in_brackets = false; name_end < text.size(); ++name_end) {
      const char c = text[name_end];
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (!in_brackets && (c == ':' || c == '!')) break;
    }
    Value value = lookup(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with("!")) {
      if (rest.size() < 2) fail("end of string while looking for conversion specifier");
      value = convert(value, rest[1]);
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') fail("expected ':' after conversion specifier");
    }
    if (rest.starts_with(":")) rest.remove_prefix(1);
    return format_value(heap_, value, format(rest, depth + 1));
  }

  Value convert(const Value& value, char conversion) {
    if (conversion == 's') return make_string(heap_, to_str(heap_, value));
    if (conversion == 'r' || conversion == 'a') return make_string(heap_, to_repr(heap_, value));
    fail("Unknown conversion specifier '{}'", conversion);
  }

  Value lookup(std::string_view name) {
    size_t i = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, i));
    while (i < name.size()) {
      heap_.tick();
      if (name[i] == '.') {
        const size_t end = std::min(name.find_first_of(".[", i + 1), name.size());
        value = get_attribute(heap_, value, name.substr(i + 1, end - i - 1));
        i = end;
      } else {
        const size_t end = name.find(']', i);
        if (name[i] != '[' || end == std::string_view::npos) fail("Missing ']' in format string");
        const std::string_view key = name.substr(i + 1, end - i - 1);
        const auto number = parse_integer(key, 10);
        const bool digits = number && key.find_first_not_of("0123456789") == std::string_view::npos;
        value = get_item(heap_, value,
                         digits ? Value::integer(*number) : make_string(heap_, std::string(key)));
        i = end + 1;
      }
    }
    return value;
  }

  Value first(std::string_view name) {
    const bool digits = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!digits) {
      for (const auto& [have, value] : arguments_.named) {
        if (have == name) return value;
      }
      fail("format: no argument '{}'", name);
    }
    size_t index = next_;
    if (name.empty()) {
      if (numbered_)
        fail("cannot switch from manual field specification to automatic field numbering");
      automatic_ = true;
      ++next_;
    } else {
      if (automatic_)
        fail("cannot switch from automatic field numbering to manual field specification");
      numbered_ = true;
      size_t i = 0;
      index = static_cast<size_t>(read_number(name, i, kMaxWidth));
    }
    if (index >= arguments_.positional.size()) {
      fail("Replacement index {} out of range for positional args tuple", index);
    }
    return arguments_.positional[index];
  }

  Heap& heap_;
  const Arguments& arguments_;
  size_t next_ = 0;
  bool automatic_ = false;
  bool numbered_ = false;
};

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, std::string_view text, const Value& values)
      : heap_(heap), text_(text), values_(values) {}

  std::string format() {
    std::string out;
    for (size_t i = 0; i < text_.size();) {
      if (text_[i] != '%') {
        out += text_[i++];
        continue;
      }
      out += conversion(++i);
      heap_.check_room(out.size());
    }
    heap_.tick_bytes(out.size());
    const bool single = !values_.is(Kind::kTuple);
    const size_t given = single ? 1 : values_.items().size();
    if (used_ < given && !(single && (values_.is(Kind::kDict) || values_.is(Kind::kList)))) {
      fail("not all arguments converted during string formatting");
    }
    return out;
  }

 private:
  std::string conversion(size_t& i) {
    std::optional<Value> value;
    if (i < text_.size() && text_[i] == '(') {
      const size_t end = text_.find(')', i);
      if (end == std::string_view::npos) fail("incomplete format key");
      if (!values_.is(Kind::kDict)) fail("format requires a mapping");
      const Value* found = find_key(values_.dict(), text_.substr(i + 1, end - i - 1));
      if (found == nullptr) fail("format: no key '{}'", text_.substr(i + 1, end - i - 1));
      value = *found;
      i = end + 1;
    }
    Spec spec;
    spec.align = '>';
    for (; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '-')
        spec.align = '<';
      else if (c == '+' || (c == ' ' && spec.sign != '+'))
        spec.sign = c;
      else if (c == '#')
        spec.alternate = true;
      else if (c == '0')
        zero_ = true;
      else
        break;
    }
    const bool zero = std::exchange(zero_, false);
    spec.width = read_number(text_, i, kMaxWidth);
    if (i < text_.size() && text_[i] == '.')
      spec.precision = read_number(text_, ++i, kMaxPrecision);
    while (i < text_.size() && (text_[i] == 'l' || text_[i] == 'h' || text_[i] == 'L')) ++i;
    if (i >= text_.size()) fail("incomplete format");
    spec.type = text_[i++];
    if (spec.type == '%') return "%";
    if (!value) value = next();
    return convert(*value, spec, zero);
  }

  const Value& next() {
    const bool single = !values_.is(Kind::kTuple);
    if (used_ >= (single ? 1 : values_.items().size()))
      fail("not enough arguments for format string");
    return single ? (++used_, values_) : values_.items()[used_++];
  }

  std::string convert(const Value& value, Spec spec, bool zero) {
    heap_.tick(spec.width / 64);
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      return format_text(spec.type == 's' ? to_str(heap_, value) : to_repr(heap_, value), spec);
    }
    if (zero && spec.align != '<') {
      spec.align = '=';
      spec.fill = "0";
    }
    if (spec.type == 'c' && value.is_string() && value.length() == 1)
      return format_text(value.text(), spec);
    if (!value.is_number() || value.is(Kind::kUInt)) {
      fail("%{} format: a number is required, not {}", spec.type, type_name(value));
    }
    switch (spec.type) {
      case 'd':
      case 'i':
      case 'u': {
        spec.type = 'd';
        if (value.is_integral()) return format_integer(value.as_int(), spec);
        const double whole = std::trunc(value.as_float());
        if (!(std::abs(whole) < 9.2e18)) fail("%d format: the number is out of range");
        return format_integer(static_cast<int64_t>(whole), spec);
      }
      case 'x':
      case 'X':
      case 'o':
        if (!value.is_integral()) fail("%{} format: an integer is required, not float", spec.type);
        return format_integer(value.as_int(), spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return format_real(value.as_float(), spec);
      default:
        fail("unsupported format character '{}'", spec.type);
    }
  }

  Heap& heap_;
  std::string_view text_;
  const Value& values_;
  size_t used_ = 0;
  bool zero_ = false;
};

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

}  // namespace

Value percent_format(Heap& heap, const Value& text, const Value& values) {
  PercentFormatter formatter(heap, text.text(), values);
  return make_string(heap, formatter.format()).with_markup(text.is_markup());
}

Value brace_format(Heap& heap, const Value& text, const Arguments& arguments) {
  BraceFormatter formatter(heap, arguments);
  return make_string(heap, formatter.format(text.text(), 1)).with_markup(text.is_markup());
}

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

}  // namespace quire::jinja
