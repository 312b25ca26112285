// These filters make or take text and numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "chat/jinja/library/filters.h"
#include "chat/jinja/library/methods.h"
#include "chat/jinja/value/format.h"
#include "chat/jinja/value/numbers.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

Value same_kind(Heap& heap, const Value& like, std::string text) {
  return make_string(heap, std::move(text)).with_markup(like.is_markup());
}

template <std::string (*kMap)(std::string_view)>
Value map_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("filter", arguments);
  const Value text = as_string(heap, value);
  heap.tick_bytes(text.text().size());
  return same_kind(heap, text, kMap(text.text()));
}

// Computes Jinja's own title filter: words begin after blanks, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  std::string out;
  size_t word = 0;
  const auto finish = [&](size_t end) { out += to_capitalized(text.substr(word, end - word)); };
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_code_point(text, i);
    if (is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<') {
      finish(begin);
      out += text.substr(begin, i - begin);
      word = i;
    }
  }
  finish(text.size());
  return out;
}

Value trim_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const Value text = as_string(heap, value);
  std::optional<std::string_view> chars;
  if (!bound.is_none_or_absent(0)) chars = bound.text(0);
  heap.tick_bytes(text.text().size());
  return same_kind(heap, text, std::string(strip(text.text(), Side::kBoth, chars)));
}

Value replace_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t count = bound.is_none_or_absent(2) ? -1 : bound.integer(2);
  return make_string(heap, replace_text(heap, to_str(heap, value), to_str(heap, bound[0]),
                                        to_str(heap, bound[1]), count));
}

Value string_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("string", arguments);
  return as_string(heap, value);
}

Value safe_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("safe", arguments);
  return as_string(heap, value).with_markup(true);
}

Value escape_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("escape", arguments);
  if (value.is_markup()) return value;
  const std::string text = to_str(heap, value);
  heap.check_room(text.size() * 6);
  return make_string(heap, escape_html(text)).with_markup(true);
}

Value force_escape_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  return escape_filter(heap, value.with_markup(false), arguments);
}

std::string level_indent(Heap& heap, const Value& indent) {
  if (indent.is_string()) return std::string(indent.text());
  if (!indent.is_integral())
    fail("tojson: expected indent to be int or str, got {}", type_name(indent));
  const int64_t width = std::max<int64_t>(indent.as_int(), 0);
  heap.check_room(static_cast<uint64_t>(width) * 16);
  return std::string(static_cast<size_t>(width), ' ');
}

Value to_json_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.truth_or(0, false);
  style.sort_keys = bound.truth_or(3, false);
  if (!bound.is_none_or_absent(1)) {
    style.has_indent = true;
    style.indent = level_indent(heap, bound[1]);
    style.item_separator = ",";
  }
  if (!bound.is_none_or_absent(2)) {
    const std::vector<Value> pair = items_of(heap, bound[2]);
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      fail("tojson: expected two strings as separators");
    }
    style.item_separator = std::string(pair[0].text());
    style.key_separator = std::string(pair[1].text());
  }
  return make_string(heap, to_json(heap, value, style));
}

Value indent_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) fail("indent: expected str, got {}", type_name(value));
  std::string indention(4, ' ');
  if (bound.has(0) && bound[0].is_string()) {
    indention = std::string(bound[0].text());
  } else if (bound.has(0)) {
    const int64_t width = std::max<int64_t>(bound.integer(0), 0);
    heap.check_room(static_cast<uint64_t>(width));
    indention.assign(static_cast<size_t>(width), ' ');
  }
  const std::string text = std::string(value.text()) + "\n";
  const auto lines = split_lines(text);
  heap.check_room(text.size() + lines.size() * (indention.size() + 32));
  const bool blank = bound.truth_or(2, false);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n";
    if (i == 0 ? bound.truth_or(1, false) : blank || !lines[i].empty()) out += indention;
    out += lines[i];
  }
  return same_kind(heap, value, std::move(out));
}

Value int_filter(Heap&, const Value& value, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  std::optional<double> number;
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_string()) {
    if (const auto parsed = parse_integer(value.text(), bound.integer_or(1, 10)))
      return Value::integer(*parsed);
    number = parse_real(value.text());
  } else if (value.is_integral()) {
    return Value::integer(value.as_int());
  } else if (value.is(Kind::kUInt)) {
    return value;
  } else if (value.is(Kind::kFloat)) {
    number = value.as_float();
    if (std::isinf(*number)) fail("cannot convert float infinity to integer");
  }
  if (!number || !std::isfinite(*number)) return bound.value_or(0, Value::integer(0));
  if (std::abs(*number) >= 9.2e18) fail("integers beyond 64 bits are not supported");
  return Value::integer(static_cast<int64_t>(*number));
}

Value float_filter(Heap&, const Value& value, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_number()) return Value::real(value.as_float());
  if (value.is_string()) {
    if (const auto number = parse_real(value.text())) return Value::real(*number);
  }
  return bound.value_or(0, Value::real(0));
}

Value abs_filter(Heap&, const Value& value, const Arguments& arguments) {
  no_arguments("abs", arguments);
  return abs_value(value);
}

Value round_filter(Heap&, const Value& value, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::string_view method = bound.has(1) ? bound.text(1) : "common";
  const int64_t precision = bound.integer_or(0, 0);
  if (method != "common" && method != "ceil" && method != "floor") {
    fail("method must be common, ceil or floor");
  }
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) fail("type {} doesn't define __round__ method", type_name(value));
  if (method == "common") {
    if (value.is_integral() && precision >= 0) return Value::integer(value.as_int());
    const double rounded = round_real(value.as_float(), precision);
    if (value.is_integral()) return Value::integer(static_cast<int64_t>(rounded));
    return Value::real(rounded);
  }
  if (precision > 300 || precision < -300) fail("round: precision out of range");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_float() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value format_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  const Value text = as_string(heap, value);
  if (arguments.named.empty())
    return percent_format(heap, text, make_tuple(heap, arguments.positional));
  std::vector<Entry> entries;
  for (const auto& [name, argument] : arguments.named) {
    entries.emplace_back(make_string(heap, name), argument);
  }
  return percent_format(heap, text, make_dict(heap, std::move(entries)));
}

Value center_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  Arguments width;
  width.positional.push_back(Value::integer(bound.integer_or(0, 80)));
  return call_method(heap, as_string(heap, value), "center", width);
}

Value word_count_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("wordcount", arguments);
  const std::string text = to_str(heap, value);
  int64_t count = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t code = next_code_point(text, i);
    const bool is_word = code == '_' || is_alpha(code) || is_numeric(code);
    if (is_word && !in_word) ++count;
    in_word = is_word;
  }
  return Value::integer(count);
}

Value truncate_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const int64_t length = bound.integer_or(0, 255);
  const std::string_view end = bound.has(2) ? bound.text(2) : "...";
  const int64_t leeway = bound.is_none_or_absent(3) ? 5 : bound.integer(3);
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) fail("truncate: expected str, got {}", type_name(value));
  const int64_t end_length = num_code_points(end);
  if (length < end_length) fail("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) fail("expected leeway >= 0, got {}", leeway);
  if (value.length() - leeway <= length) return value;
  std::string_view kept =
      value.text().substr(0, byte_offset(value.text(), length - end_length, value.length()));
  const size_t blank = kept.rfind(' ');
  if (!bound.truth_or(1, false) && blank != std::string_view::npos) kept = kept.substr(0, blank);
  return same_kind(heap, value, std::string(kept) + std::string(end));
}

Value url_encode_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("urlencode", arguments);
  if (!value.is_string() && is_iterable(value))
    fail("urlencode: only strings and numbers are supported");
  const std::string text = to_str(heap, value);
  heap.check_room(text.size() * 3);
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<uint8_t>(c));
  }
  return make_string(heap, std::move(out));
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> table{{"abs", abs_filter},
                                                        {"capitalize", map_filter<to_capitalized>},
                                                        {"center", center_filter},
                                                        {"e", escape_filter},
                                                        {"escape", escape_filter},
                                                        {"float", float_filter},
                                                        {"forceescape", force_escape_filter},
                                                        {"format", format_filter},
                                                        {"indent", indent_filter},
                                                        {"int", int_filter},
                                                        {"lower", map_filter<to_lower>},
                                                        {"replace", replace_filter},
                                                        {"round", round_filter},
                                                        {"safe", safe_filter},
                                                        {"string", string_filter},
                                                        {"title", map_filter<title_words>},
                                                        {"tojson", to_json_filter},
                                                        {"trim", trim_filter},
                                                        {"truncate", truncate_filter},
                                                        {"upper", map_filter<to_upper>},
                                                        {"urlencode", url_encode_filter},
                                                        {"wordcount", word_count_filter}};
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace quire::jinja
