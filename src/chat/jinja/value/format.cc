#include "chat/jinja/value/format.h"

#include "chat/jinja/value/format_spec.h"
#include "chat/jinja/value/numbers.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

// BraceFormatter walks one "{...}" template. Nested fields occur in format specifiers only, two
// levels in all.
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
    FormatSpec spec;
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

  std::string convert(const Value& value, FormatSpec spec, bool zero) {
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

}  // namespace

Value percent_format(Heap& heap, const Value& text, const Value& values) {
  PercentFormatter formatter(heap, text.text(), values);
  return make_string(heap, formatter.format()).with_markup(text.is_markup());
}

Value brace_format(Heap& heap, const Value& text, const Arguments& arguments) {
  BraceFormatter formatter(heap, arguments);
  return make_string(heap, formatter.format(text.text(), 1)).with_markup(text.is_markup());
}

}  // namespace quire::jinja
