// These functions read a.name, a[key] and a[start:stop:step] as the sandboxed environment answers
// them.
#include <algorithm>
#include <array>

#include "chat/jinja/library/methods.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

// Returns the name of the object in the message of an undefined value: None, or "dict object".
std::string object_name(const Value& object) {
  return object.is_none() ? "None" : fmt::format("{} object", type_name(object));
}

Value undefined_element(Heap& heap, const Value& object, const Value& key) {
  if (key.is_string()) return undefined_attribute(heap, object, key.text());
  return make_undefined(
      heap, fmt::format("{} has no element {}", object_name(object), to_repr(heap, key)));
}

// Returns a bound method, a refusal, or nothing.
std::optional<Value> find_member(Heap& heap, const Value& object, std::string_view name) {
  if (object.is(Kind::kNamespace)) {
    for (const auto& [have, value] : object.get<NamespaceNode>().attributes) {
      heap.tick();
      if (have == name) return value;
    }
    return std::nullopt;
  }
  if (object.is(Kind::kTuple) && object.get<SequenceNode>().is_group) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  if (object.is(Kind::kCycler) && name == "current") {
    const auto& cycler = object.get<CyclerNode>();
    return cycler.items[cycler.position];
  }
  if (is_mutator(object.kind(), name) || name.starts_with("__")) {
    if (name.starts_with("__") && object.is(Kind::kDict) &&
        find_key(object.dict(), name) != nullptr) {
      return std::nullopt;  // a key, not an attribute
    }
    return make_undefined(heap, fmt::format("access to attribute {} of {} object is unsafe.",
                                            quoted(name), quoted(type_name(object))));
  }
  if (has_method(object.kind(), name)) return make_method(heap, object, name);
  return std::nullopt;
}

// Returns a position in a sequence of `length`, counting from the end when negative.
std::optional<int64_t> position_of(const Value& key, int64_t length) {
  if (!key.is_integral()) return std::nullopt;
  const int64_t index = key.as_int() < 0 ? key.as_int() + length : key.as_int();
  if (index < 0 || index >= length) return std::nullopt;
  return index;
}

std::optional<Value> find_element(Heap& heap, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::kDict: {
      if (key.is(Kind::kList) || key.is(Kind::kDict) || key.is(Kind::kView)) return std::nullopt;
      const Value* found = find_key(heap, object.dict(), key);
      return found == nullptr ? std::nullopt : std::optional<Value>(*found);
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto at = position_of(key, length_of(object));
      if (!at) return std::nullopt;
      return object.items()[static_cast<size_t>(*at)];
    }
    case Kind::kRange: {
      const auto at = position_of(key, length_of(object));
      if (!at) return std::nullopt;
      return Value::integer(object.range().start + *at * object.range().step);
    }
    case Kind::kString: {
      const auto at = position_of(key, object.length());
      if (!at) return std::nullopt;
      const std::string_view text = object.text();
      if (static_cast<int64_t>(text.size()) != object.length()) heap.tick_bytes(text.size());
      size_t begin = byte_offset(text, *at, object.length());
      size_t end = begin;
      next_code_point(text, end);
      return make_string(heap, std::string(text.substr(begin, end - begin)))
          .with_markup(object.is_markup());
    }
    case Kind::kUndefined:
      fail_undefined(object);
    default:
      return std::nullopt;
  }
}

struct SliceRange {
  int64_t start, step, count;
};

int64_t slice_integer(const Value& value, int64_t otherwise) {
  if (value.is_none()) return otherwise;
  if (!value.is_integral()) {
    fail("slice indices must be integers or None or have an __index__ method");
  }
  return value.as_int();
}

SliceRange resolve_slice(int64_t length, const Value& start, const Value& stop, const Value& step) {
  const int64_t stride = slice_integer(step, 1);
  if (stride == 0) fail("slice step cannot be zero");
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? length : length - 1;
  const auto clamp = [&](const Value& end, int64_t otherwise) {
    if (end.is_none()) return otherwise;
    int64_t index = slice_integer(end, 0);
    if (index < 0) index = index < -length ? low : index + length;
    return std::clamp(index, low, high);
  };
  const int64_t first = clamp(start, stride > 0 ? low : high);
  const int64_t last = clamp(stop, stride > 0 ? high : low);
  int64_t count = 0;
  if (stride > 0 && last > first) count = (last - first - 1) / stride + 1;
  if (stride < 0 && first > last) {
    count = stride == INT64_MIN ? 1 : (first - last - 1) / -stride + 1;
  }
  return {first, stride, count};
}

Value slice_string(Heap& heap, const Value& object, const SliceRange& slice) {
  const std::string_view text = object.text();
  heap.tick_bytes(text.size());
  if (slice.step == 1 || slice.count == 0) {
    const size_t begin = byte_offset(text, slice.start, object.length());
    const size_t end = byte_offset(text, slice.start + slice.count, object.length());
    return make_string(heap, slice.count == 0 ? "" : std::string(text.substr(begin, end - begin)));
  }
  heap.check_room(text.size() * 9);
  std::vector<size_t> offsets;  // of every code point
  for (size_t i = 0; i < text.size(); next_code_point(text, i)) offsets.push_back(i);
  offsets.push_back(text.size());
  std::string out;
  int64_t at = slice.start;
  for (int64_t i = 0; i < slice.count; ++i) {
    const auto index = static_cast<size_t>(at);
    if (index + 1 < offsets.size()) {
      out += text.substr(offsets[index], offsets[index + 1] - offsets[index]);
    }
    if (i + 1 < slice.count) at += slice.step;
  }
  return make_string(heap, std::move(out));
}

}  // namespace

Value undefined_attribute(Heap& heap, const Value& object, std::string_view name) {
  return make_undefined(
      heap, fmt::format("{} has no attribute {}", quoted(object_name(object)), quoted(name)));
}

Value get_attribute(Heap& heap, const Value& object, std::string_view name) {
  if (object.is_undefined()) {
    if (name.starts_with("__") && name.ends_with("__"))
      fail("access to attribute {} is unsafe", quoted(name));
    fail_undefined(object);
  }
  if (auto member = find_member(heap, object, name)) return *std::move(member);
  if (object.is(Kind::kDict)) {
    if (const Value* found = find_key(object.dict(), name)) return *found;
  }
  return undefined_attribute(heap, object, name);
}

Value get_item(Heap& heap, const Value& object, const Value& key) {
  if (auto element = find_element(heap, object, key)) return *std::move(element);
  if (key.is_string()) {
    if (auto member = find_member(heap, object, key.text())) return *std::move(member);
  }
  return undefined_element(heap, object, key);
}

Value get_slice(Heap& heap, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  switch (object.kind()) {
    case Kind::kString:
      return slice_string(heap, object, resolve_slice(object.length(), start, stop, step))
          .with_markup(object.is_markup());
    case Kind::kRange: {
      const RangeNode& range = object.range();
      const SliceRange slice = resolve_slice(range.size(), start, stop, step);
      std::vector<Value> items;
      for (int64_t i = 0; i < slice.count; ++i) {
        items.push_back(Value::integer(range.start + (slice.start + i * slice.step) * range.step));
      }
      return make_list(heap, std::move(items));
    }
    case Kind::kList:
    case Kind::kTuple: {
      const std::vector<Value>& all = object.items();
      const SliceRange slice = resolve_slice(length_of(object), start, stop, step);
      heap.check_room(static_cast<uint64_t>(slice.count) * sizeof(Value));
      std::vector<Value> items;
      items.reserve(static_cast<size_t>(slice.count));
      for (int64_t i = 0; i < slice.count; ++i) {
        items.push_back(all[static_cast<size_t>(slice.start + i * slice.step)]);
      }
      return object.is(Kind::kList) ? make_list(heap, std::move(items))
                                    : make_tuple(heap, std::move(items));
    }
    case Kind::kUndefined:
      fail_undefined(object);
    case Kind::kDict:
      fail("unhashable type: 'slice'");
    default:
      fail("'{}' object is not subscriptable", type_name(object));
  }
}

}  // namespace quire::jinja
