// These are the methods of str.
#include <algorithm>
#include <array>
#include <cmath>

#include "chat/jinja/library/method_table.h"
#include "chat/jinja/library/methods.h"
#include "chat/jinja/value/format.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

// Substrings of a markup string are markup too.
Value same_kind(Heap& heap, const Value& self, std::string text) {
  return make_string(heap, std::move(text)).with_markup(self.is_markup());
}

template <std::string (*kMap)(std::string_view)>
Value map_text(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments("str method", arguments);
  return same_kind(heap, self, kMap(self.text()));
}

template <Side kSide>
Value strip_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"});
  std::optional<std::string_view> chars;
  if (!bound.is_none_or_absent(0)) chars = bound.text(0);
  heap.tick_bytes(self.text().size());
  return same_kind(heap, self, std::string(strip(self.text(), kSide, chars)));
}

// Computes str.isX: the text is not empty, and the test holds for all code points.
template <bool (*kTest)(char32_t)>
Value all_are(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments("str method", arguments);
  heap.tick_bytes(self.text().size());
  const std::string_view text = self.text();
  for (size_t i = 0; i < text.size();) {
    if (!kTest(next_code_point(text, i))) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

bool is_alnum(char32_t code) { return is_alpha(code) || is_numeric(code) || is_digit(code); }

// Computes str.islower and str.isupper: the text has a cased letter and none of the other case.
template <bool kUpper>
Value has_case(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments("str method", arguments);
  heap.tick_bytes(self.text().size());
  const std::string_view text = self.text();
  bool found = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t code = next_code_point(text, i);
    if (is_title(code) || (kUpper ? is_lower(code) : is_upper(code))) return Value::boolean(false);
    found = found || (kUpper ? is_upper(code) : is_lower(code));
  }
  return Value::boolean(found);
}

Value is_ascii_text(Heap&, const Value& self, const Arguments& arguments) {
  no_arguments("isascii", arguments);
  const std::string_view text = self.text();
  return Value::boolean(
      std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; }));
}

Value is_title_text(Heap&, const Value& self, const Arguments& arguments) {
  no_arguments("istitle", arguments);
  const std::string_view text = self.text();
  bool in_word = false, found = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t code = next_code_point(text, i);
    const bool upper = is_upper(code) || is_title(code);
    if ((upper && in_word) || (is_lower(code) && !in_word)) return Value::boolean(false);
    in_word = upper || is_lower(code);
    found = found || in_word;
  }
  return Value::boolean(found);
}

// A Window is the part [start, end) of a text in which find, count, startswith … search.
struct Window {
  std::string_view text;
  int64_t offset = 0;    // in code points
  bool is_valid = true;  // start lies inside
};

Window window_of(Heap& heap, const Value& self, const Bound& bound, size_t first) {
  heap.tick_bytes(self.text().size());
  const int64_t length = self.length();
  const auto resolve = [&](size_t i, int64_t otherwise) {
    if (bound.is_none_or_absent(i)) return otherwise;
    const int64_t index = bound.integer(i);
    return index < 0 ? std::max<int64_t>(index < -length ? 0 : index + length, 0) : index;
  };
  const int64_t start = resolve(first, 0);
  const int64_t end = std::min(resolve(first + 1, length), length);
  if (start > end) return {{}, 0, false};
  const size_t begin_byte = byte_offset(self.text(), start, length);
  const size_t end_byte = byte_offset(self.text(), end, length);
  return {self.text().substr(begin_byte, end_byte - begin_byte), start, true};
}

int64_t find_in(Heap& heap, const Value& self, const Arguments& arguments, bool from_right) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  const std::string_view needle = bound.text(0);
  const Window window = window_of(heap, self, bound, 1);
  if (!window.is_valid) return -1;
  const size_t at = from_right ? window.text.rfind(needle) : window.text.find(needle);
  return at == std::string_view::npos ? -1
                                      : window.offset + num_code_points(window.text.substr(0, at));
}

template <bool kFromRight, bool kMustFind>
Value find_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const int64_t at = find_in(heap, self, arguments, kFromRight);
  if (at < 0 && kMustFind) fail("substring not found");
  return Value::integer(at);
}

Value count_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  const std::string_view needle = bound.text(0);
  const Window window = window_of(heap, self, bound, 1);
  if (!window.is_valid) return Value::integer(0);
  if (needle.empty()) return Value::integer(num_code_points(window.text) + 1);
  int64_t count = 0;
  for (size_t at = window.text.find(needle); at != std::string_view::npos;
       at = window.text.find(needle, at + needle.size())) {
    ++count;
  }
  return Value::integer(count);
}

template <bool kEnd>
Value has_affix(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound(kEnd ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  const Window window = window_of(heap, self, bound, 1);
  const auto matches = [&](const Value& affix) {
    if (affix.is_undefined()) fail_undefined(affix);
    if (!affix.is_string()) {
      fail("{} first arg must be str or a tuple of str, not {}", kEnd ? "endswith" : "startswith",
           type_name(affix));
    }
    return window.is_valid &&
           (kEnd ? window.text.ends_with(affix.text()) : window.text.starts_with(affix.text()));
  };
  if (!bound[0].is(Kind::kTuple)) return Value::boolean(matches(bound[0]));
  const auto& items = bound[0].items();
  return Value::boolean(std::any_of(items.begin(), items.end(), matches));
}

void add_piece(Heap& heap, const Value& self, std::vector<Value>& out, std::string_view piece) {
  out.push_back(same_kind(heap, self, std::string(piece)));
}

std::vector<std::string_view> split_space(std::string_view text, int64_t max_splits,
                                          bool from_right) {
  std::vector<std::string_view> pieces;
  // When the splits are used up, the rest keeps the white space at its far end.
  text = strip(text, from_right ? Side::kRight : Side::kLeft);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(pieces.size()) == max_splits) {
      pieces.push_back(text);
      break;
    }
    std::string_view piece;
    if (from_right) {
      size_t begin = 0;  // the beginning of the last word
      for (size_t i = 0; i < text.size();) {
        if (is_space(next_code_point(text, i))) begin = i;
      }
      piece = text.substr(begin);
      text = strip(text.substr(0, begin), Side::kRight);
    } else {
      size_t end = 0;
      for (size_t i = 0; i < text.size() && !is_space(next_code_point(text, i));) end = i;
      piece = text.substr(0, end);
      text = strip(text.substr(end), Side::kLeft);
    }
    pieces.push_back(piece);
  }
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> split_by(std::string_view text, std::string_view separator,
                                       int64_t max_splits, bool from_right) {
  std::vector<std::string_view> pieces;
  while (max_splits < 0 || static_cast<int64_t>(pieces.size()) < max_splits) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    pieces.push_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
  }
  pieces.push_back(text);
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

template <bool kFromRight>
Value split_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const int64_t max_splits = bound.integer_or(1, -1);
  heap.tick_bytes(self.text().size());
  std::vector<std::string_view> pieces;
  if (bound.is_none_or_absent(0)) {
    // Splitting from the right by white space walks the text once per piece.
    if (kFromRight && max_splits >= 0)
      heap.tick(std::min<int64_t>(max_splits, self.length()) * (1 + self.length() / 64));
    pieces = split_space(self.text(), max_splits, kFromRight && max_splits >= 0);
  } else {
    const std::string_view separator = bound.text(0);
    if (separator.empty()) fail("empty separator");
    pieces = split_by(self.text(), separator, max_splits, kFromRight);
  }
  heap.check_room(pieces.size() * 160);
  std::vector<Value> out;
  out.reserve(pieces.size());
  for (const std::string_view piece : pieces) add_piece(heap, self, out, piece);
  return make_list(heap, std::move(out));
}

Value split_lines_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  heap.tick_bytes(self.text().size());
  std::vector<Value> out;
  for (const std::string_view line : split_lines(self.text(), bound.truth_or(0, false))) {
    add_piece(heap, self, out, line);
  }
  return make_list(heap, std::move(out));
}

template <bool kFromRight>
Value partition_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const std::string_view text = self.text(), separator = bound.text(0);
  if (separator.empty()) fail("empty separator");
  heap.tick_bytes(text.size());
  const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
  std::vector<Value> out;
  if (at == std::string_view::npos) {
    for (int i = 0; i < 3; ++i) add_piece(heap, self, out, i == (kFromRight ? 2 : 0) ? text : "");
  } else {
    add_piece(heap, self, out, text.substr(0, at));
    add_piece(heap, self, out, separator);
    add_piece(heap, self, out, text.substr(at + separator.size()));
  }
  return make_tuple(heap, std::move(out));
}

Value replace_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  return same_kind(
      heap, self,
      replace_text(heap, self.text(), bound.text(0), bound.text(1), bound.integer_or(2, -1)));
}

Value join_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  const std::vector<Value> items = items_of(heap, bound[0]);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      fail("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
  }
  return join_strings(heap, self.text(), items).with_markup(self.is_markup());
}

template <bool kSuffix>
Value remove_affix(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound(kSuffix ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  std::string_view text = self.text();
  const std::string_view affix = bound.text(0);
  if (kSuffix && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!kSuffix && text.starts_with(affix)) text.remove_prefix(affix.size());
  return same_kind(heap, self, std::string(text));
}

template <char kAlign>
Value justify(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("justify", arguments, {"width", "fillchar"}, 1);
  const int64_t width = bound.integer(0);
  const std::string_view fill = bound.has(1) ? bound.text(1) : " ";
  if (num_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  const int64_t missing = std::max<int64_t>(width - self.length(), 0);
  heap.check_room(static_cast<uint64_t>(missing) * 4);
  // Python puts the odd blank of center() left when both width and the blanks are odd.
  const int64_t left = kAlign == '<'   ? 0
                       : kAlign == '>' ? missing
                                       : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (int64_t i = left; i < missing; ++i) out += fill;
  return same_kind(heap, self, std::move(out));
}

Value zero_fill(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  const int64_t missing = std::max<int64_t>(bound.integer(0) - self.length(), 0);
  heap.check_room(static_cast<uint64_t>(missing));
  std::string out(self.text());
  const bool has_sign = out.starts_with('-') || out.starts_with('+');
  out.insert(has_sign ? 1 : 0, static_cast<size_t>(missing), '0');
  return same_kind(heap, self, std::move(out));
}

}  // namespace

const MethodTable& string_methods() {
  static const MethodTable table{{"capitalize", map_text<to_capitalized>},
                                 {"casefold", map_text<to_lower>},
                                 {"center", justify<'^'>},
                                 {"count", count_text},
                                 {"endswith", has_affix<true>},
                                 {"find", find_text<false, false>},
                                 {"format", brace_format},
                                 {"index", find_text<false, true>},
                                 {"isalnum", all_are<is_alnum>},
                                 {"isalpha", all_are<is_alpha>},
                                 {"isascii", is_ascii_text},
                                 {"isdecimal", all_are<is_decimal>},
                                 {"isdigit", all_are<is_digit>},
                                 {"islower", has_case<false>},
                                 {"isnumeric", all_are<is_numeric>},
                                 {"isspace", all_are<is_space>},
                                 {"istitle", is_title_text},
                                 {"isupper", has_case<true>},
                                 {"join", join_method},
                                 {"ljust", justify<'<'>},
                                 {"lower", map_text<to_lower>},
                                 {"lstrip", strip_text<Side::kLeft>},
                                 {"partition", partition_text<false>},
                                 {"removeprefix", remove_affix<false>},
                                 {"removesuffix", remove_affix<true>},
                                 {"replace", replace_method},
                                 {"rfind", find_text<true, false>},
                                 {"rindex", find_text<true, true>},
                                 {"rjust", justify<'>'>},
                                 {"rpartition", partition_text<true>},
                                 {"rsplit", split_text<true>},
                                 {"rstrip", strip_text<Side::kRight>},
                                 {"split", split_text<false>},
                                 {"splitlines", split_lines_text},
                                 {"startswith", has_affix<false>},
                                 {"strip", strip_text<Side::kBoth>},
                                 {"swapcase", map_text<swap_case>},
                                 {"title", map_text<to_title>},
                                 {"upper", map_text<to_upper>},
                                 {"zfill", zero_fill}};
  return table;
}

}  // namespace quire::jinja
