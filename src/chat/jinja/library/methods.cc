#include "chat/jinja/library/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "chat/jinja/library/method_table.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

Value sequence_count(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : items_of(heap, self)) count += equals(heap, item, bound[0]) ? 1 : 0;
  return Value::integer(count);
}

Value sequence_index(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value", "start", "stop"}, 1);
  const std::vector<Value> items = items_of(heap, self);
  const auto size = static_cast<int64_t>(items.size());
  const auto resolve = [&](int64_t i) {
    return i < 0 ? std::max<int64_t>(i < -size ? 0 : i + size, 0) : i;
  };
  const int64_t stop = std::min(resolve(bound.integer_or(2, size)), size);
  for (int64_t i = resolve(bound.integer_or(1, 0)); i < stop; ++i) {
    if (equals(heap, items[static_cast<size_t>(i)], bound[0])) return Value::integer(i);
  }
  fail("{} is not in list", to_repr(heap, bound[0]));
}

Value copy_value(Heap&, const Value& self, const Arguments& arguments) {
  no_arguments("copy", arguments);
  return self;  // values do not change, so a copy is the same
}

Value dict_get(Heap& heap, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  const Value* found = find_key(heap, self.dict(), bound[0]);
  return found != nullptr ? *found : bound.value_or(1, Value());
}

Value dict_items(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments("items", arguments);
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().entries)
    out.push_back(make_tuple(heap, {key, value}));
  return make_view(heap, "dict_items", std::move(out));
}

Value dict_keys(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments("keys", arguments);
  return make_view(heap, "dict_keys", items_of(heap, self));
}

Value dict_values(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments("values", arguments);
  std::vector<Value> out;
  for (const Entry& entry : self.dict().entries) out.push_back(entry.second);
  return make_view(heap, "dict_values", std::move(out));
}

Value is_integer_real(Heap&, const Value& self, const Arguments& arguments) {
  no_arguments("is_integer", arguments);
  return Value::boolean(self.as_float() == std::trunc(self.as_float()));
}

Value bit_length(Heap&, const Value& self, const Arguments& arguments) {
  no_arguments("bit_length", arguments);
  const int64_t n = self.as_int();
  auto size = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  int64_t bits = 0;
  for (; size != 0; size >>= 1) ++bits;
  return Value::integer(bits);
}

Value cycler_next(Heap&, const Value& self, const Arguments& arguments) {
  no_arguments("next", arguments);
  auto& cycler = self.get<CyclerNode>();
  const Value value = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return value;
}

Value cycler_reset(Heap&, const Value& self, const Arguments& arguments) {
  no_arguments("reset", arguments);
  self.get<CyclerNode>().position = 0;
  return {};
}

const MethodTable& methods_of(Kind kind) {
  static const MethodTable none{};
  static const MethodTable list{
      {"copy", copy_value}, {"count", sequence_count}, {"index", sequence_index}};
  static const MethodTable tuple{{"count", sequence_count}, {"index", sequence_index}};
  static const MethodTable dict{{"copy", copy_value},
                                {"get", dict_get},
                                {"items", dict_items},
                                {"keys", dict_keys},
                                {"values", dict_values}};
  static const MethodTable integer{{"bit_length", bit_length}};
  static const MethodTable real{{"is_integer", is_integer_real}};
  static const MethodTable cycler{{"next", cycler_next}, {"reset", cycler_reset}};
  switch (kind) {
    case Kind::kString:
      return string_methods();
    case Kind::kList:
      return list;
    case Kind::kTuple:
    case Kind::kRange:
      return tuple;
    case Kind::kDict:
      return dict;
    case Kind::kBool:
    case Kind::kInt:
      return integer;
    case Kind::kFloat:
      return real;
    case Kind::kCycler:
      return cycler;
    default:
      return none;
  }
}

}  // namespace

bool has_method(Kind kind, std::string_view name) { return methods_of(kind).count(name) > 0; }

bool is_mutator(Kind kind, std::string_view name) {
  constexpr std::array<std::string_view, 8> kList{"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
  constexpr std::array<std::string_view, 5> kDict{"clear", "pop", "popitem", "setdefault",
                                                  "update"};
  if (kind == Kind::kList) return std::find(kList.begin(), kList.end(), name) != kList.end();
  if (kind == Kind::kDict) return std::find(kDict.begin(), kDict.end(), name) != kDict.end();
  return false;
}

Value call_method(Heap& heap, const Value& self, std::string_view name,
                  const Arguments& arguments) {
  heap.tick();
  return methods_of(self.kind()).at(name)(heap, self, arguments);
}

Value join_strings(Heap& heap, std::string_view separator, const std::vector<Value>& items) {
  uint64_t total = 0;
  for (const Value& item : items) total += item.text().size() + separator.size();
  heap.check_room(total);
  std::string out;
  out.reserve(total);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += separator;
    out += items[i].text();
  }
  return make_string(heap, std::move(out));
}

std::string replace_text(Heap& heap, std::string_view text, std::string_view old_text,
                         std::string_view new_text, int64_t count) {
  heap.tick_bytes(text.size());
  std::string out;
  size_t i = 0;
  const auto add = [&](std::string_view piece) {
    heap.check_room(2 * out.size() + piece.size());
    out += piece;
  };
  while (count != 0) {
    if (old_text.empty()) {
      // The new text goes before every code point and after the last one.
      add(new_text);
      --count;
      if (i >= text.size()) return out;
      const size_t begin = i;
      next_code_point(text, i);
      add(text.substr(begin, i - begin));
      heap.tick();
      continue;
    }
    const size_t at = text.find(old_text, i);
    if (at == std::string_view::npos) break;
    add(text.substr(i, at - i));
    add(new_text);
    i = at + old_text.size();
    --count;
  }
  add(text.substr(i));
  heap.tick_bytes(out.size());
  return out;
}

}  // namespace quire::jinja
