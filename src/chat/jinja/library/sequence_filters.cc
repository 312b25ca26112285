// These filters take or make lists and mappings.
#include <algorithm>
#include <map>
#include <set>

#include "chat/jinja/library/filters.h"
#include "chat/jinja/library/methods.h"
#include "chat/jinja/value/numbers.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

Value lower_case(Heap& heap, const Value& value) {
  return value.is_string() ? make_string(heap, to_lower(value.text())) : value;
}

// Returns the key that sort, unique, groupby, min and max compare by.
Value key_of(Heap& heap, const Value& item, const Value& attribute, bool case_sensitive) {
  Value key = follow_attribute(heap, item, attribute);
  return case_sensitive ? key : lower_case(heap, key);
}

Value default_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool replace = value.is_undefined() || (bound.truth_or(1, false) && !is_true(value));
  if (!replace) return value;
  return bound.has(0) ? bound[0] : make_string(heap, "");
}

Value length_filter(Heap&, const Value& value, const Arguments& arguments) {
  no_arguments("length", arguments);
  return Value::integer(length_of(value));
}

Value join_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  std::vector<Value> items = items_of(heap, value);
  for (Value& item : items) {
    if (!bound.is_none_or_absent(1)) item = follow_attribute(heap, item, bound[1]);
    item = as_string(heap, item);
  }
  return join_strings(heap, bound.has(0) ? to_str(heap, bound[0]) : "", items);
}

Value first_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("first", arguments);
  if (value.is(Kind::kIterator)) {
    auto& node = value.get<IteratorNode>();
    if (node.position < node.items.size()) return node.items[node.position++];
  }
  if (value.is_sequence_node() && !value.items().empty()) return value.items().front();
  const std::vector<Value> items = items_of(heap, value);
  if (items.empty()) return make_undefined(heap, "No first item, sequence was empty.");
  return items.front();
}

Value last_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("last", arguments);
  if (value.is(Kind::kIterator)) fail("'generator' object is not reversible");
  if (value.is_sequence_node() && !value.items().empty()) return value.items().back();
  const std::vector<Value> items = items_of(heap, value);
  if (items.empty()) return make_undefined(heap, "No last item, sequence was empty.");
  return items.back();
}

Value list_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("list", arguments);
  return make_list(heap, items_of(heap, value));
}

Value items_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("items", arguments);
  if (value.is_undefined()) return make_iterator(heap, {});
  if (!value.is(Kind::kDict)) fail("Can only get item pairs from a mapping.");
  std::vector<Value> out;
  for (const auto& [key, item] : value.dict().entries) out.push_back(make_tuple(heap, {key, item}));
  return make_iterator(heap, std::move(out));
}

struct Keyed {
  Value key;
  Value item;
};

std::vector<Value> sorted_items(Heap& heap, std::vector<Keyed> keyed, bool reverse) {
  heap.tick(static_cast<int64_t>(keyed.size()));
  // Python keeps equal items in order when it sorts in reverse, too.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less_than(heap, b.key, a.key) : less_than(heap, a.key, b.key);
  });
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (Keyed& entry : keyed) out.push_back(std::move(entry.item));
  return out;
}

Value dict_sort_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.has(1) ? bound.text(1) : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is(Kind::kDict)) fail("'{} object' has no attribute 'items'", type_name(value));
  std::vector<Keyed> keyed;
  for (const auto& [key, item] : value.dict().entries) {
    const Value& sort_by = by == "key" ? key : item;
    keyed.push_back({bound.truth_or(0, false) ? sort_by : lower_case(heap, sort_by),
                     make_tuple(heap, {key, item})});
  }
  return make_list(heap, sorted_items(heap, std::move(keyed), bound.truth_or(2, false)));
}

// "a,b" sorts by a, then by b. Jinja makes a list even of one key. A comparison of lists only
// orders their first elements that differ, so equal elements need no order.
Value multi_key(Heap& heap, const Value& item, const Value& attribute, bool case_sensitive) {
  if (!attribute.is_string()) {
    return make_list(heap, {key_of(heap, item, attribute, case_sensitive)});
  }
  std::vector<Value> keys;
  std::string_view rest = attribute.text();
  while (true) {
    const size_t comma = rest.find(',');
    const Value path = make_string(heap, std::string(rest.substr(0, comma)));
    keys.push_back(key_of(heap, item, path, case_sensitive));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return make_list(heap, std::move(keys));
}

Value sort_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(heap, value)) {
    keyed.push_back(
        {multi_key(heap, item, bound.value_or(2, Value()), bound.truth_or(1, false)), item});
  }
  return make_list(heap, sorted_items(heap, std::move(keyed), bound.truth_or(0, false)));
}

Value reverse_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("reverse", arguments);
  if (value.is_string()) {
    return get_slice(heap, value, Value(), Value(), Value::integer(-1));
  }
  std::vector<Value> items = items_of(heap, value);
  std::reverse(items.begin(), items.end());
  return value.is(Kind::kIterator) ? make_list(heap, std::move(items))
                                   : make_iterator(heap, std::move(items));
}

Value unique_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const auto less = [](const Value& a, const Value& b) { return compare_keys(a, b) < 0; };
  std::set<Value, decltype(less)> seen(less);
  std::vector<Value> out;
  for (const Value& item : items_of(heap, value)) {
    heap.tick(4);
    const Value key = key_of(heap, item, bound.value_or(1, Value()), bound.truth_or(0, false));
    require_hashable(key);
    if (seen.insert(key).second) out.push_back(item);
  }
  return make_iterator(heap, std::move(out));
}

Value group_by_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.truth_or(2, false);
  const auto grouper = [&](const Value& item) {
    const Value key = follow_attribute(heap, item, bound[0]);
    return key.is_undefined() && !bound.is_none_or_absent(1) ? bound[1] : key;
  };
  const auto key = [&](const Value& item) {
    return case_sensitive ? grouper(item) : lower_case(heap, grouper(item));
  };
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(heap, value)) keyed.push_back({key(item), item});
  const std::vector<Value> sorted = sorted_items(heap, std::move(keyed), false);
  std::vector<Value> groups;
  for (size_t i = 0; i < sorted.size();) {
    const Value first_key = key(sorted[i]);
    const Value shown = grouper(sorted[i]);
    std::vector<Value> members;
    while (i < sorted.size() && equals(heap, key(sorted[i]), first_key))
      members.push_back(sorted[i++]);
    // A key that differs from itself (NaN) still makes a group of one.
    if (members.empty()) members.push_back(sorted[i++]);
    Value group = make_tuple(heap, {shown, make_list(heap, std::move(members))});
    group.get<SequenceNode>().is_group = true;
    groups.push_back(std::move(group));
  }
  return make_list(heap, std::move(groups));
}

Value batch_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = bound.integer(0);
  std::vector<Value> out, line;
  for (const Value& item : items_of(heap, value)) {
    if (static_cast<int64_t>(line.size()) == size)
      out.push_back(make_list(heap, std::exchange(line, {})));
    line.push_back(item);
  }
  if (!line.empty()) {
    const int64_t missing = size - static_cast<int64_t>(line.size());
    if (!bound.is_none_or_absent(1) && missing > 0) {
      heap.check_room(static_cast<uint64_t>(missing) * sizeof(Value));
      line.insert(line.end(), static_cast<size_t>(missing), bound[1]);
    }
    out.push_back(make_list(heap, std::move(line)));
  }
  return make_iterator(heap, std::move(out));
}

Value slice_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  const int64_t slices = bound.integer(0);
  if (slices == 0) fail("integer division or modulo by zero");
  const std::vector<Value> items = items_of(heap, value);
  std::vector<Value> out;
  const auto size = static_cast<int64_t>(items.size());
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool longer = i < size % slices;
    const int64_t end = at + size / slices + (longer ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + end);
    if (!bound.is_none_or_absent(1) && !longer) part.push_back(bound[1]);
    out.push_back(make_list(heap, std::move(part)));
    at = end;
  }
  return make_iterator(heap, std::move(out));
}

Value sum_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Value sum = bound.value_or(1, Value::integer(0));
  if (sum.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : items_of(heap, value)) {
    sum =
        binary(heap, BinaryOp::kAdd, sum, follow_attribute(heap, item, bound.value_or(0, Value())));
  }
  return sum;
}

template <bool kMax>
Value extreme_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound(kMax ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> items = items_of(heap, value);
  if (items.empty()) return make_undefined(heap, "No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) {
    return key_of(heap, item, bound.value_or(1, Value()), bound.truth_or(0, false));
  };
  Value best = items[0], best_key = key(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    const Value next = key(items[i]);
    if (kMax ? less_than(heap, best_key, next) : less_than(heap, next, best_key)) {
      best = items[i];
      best_key = next;
    }
  }
  return best;
}

// Returns the arguments after the first `count` positional ones.
Arguments rest_of(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(count));
  return rest;
}

std::string_view name_argument(std::string_view filter, const Value& name) {
  if (!name.is_string())
    fail("{}: expected the name of a filter or test, got {}", filter, type_name(name));
  return name.text();
}

Value map_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  std::vector<Value> out;
  if (!is_true(value)) return make_iterator(heap, {});
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"});
    if (!bound.has(0)) fail("map requires a filter argument");
    for (const Value& item : items_of(heap, value)) {
      Value found = follow_attribute(heap, item, bound[0]);
      if (found.is_undefined() && !bound.is_none_or_absent(1)) found = bound[1];
      out.push_back(std::move(found));
    }
    return make_iterator(heap, std::move(out));
  }
  const std::string_view name = name_argument("map", arguments.positional[0]);
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& item : items_of(heap, value))
    out.push_back(apply_filter(heap, name, item, rest));
  return make_iterator(heap, std::move(out));
}

// This is select, reject, selectattr and rejectattr.
template <bool kKeep, bool kAttribute>
Value choose_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  std::vector<Value> out;
  if (!is_true(value)) return make_iterator(heap, {});
  constexpr size_t kOffset = kAttribute ? 1 : 0;
  if (arguments.positional.size() < kOffset) fail("Missing parameter for attribute name");
  const bool has_name = arguments.positional.size() > kOffset;
  const Arguments rest = has_name ? rest_of(arguments, kOffset + 1) : Arguments{};
  for (const Value& item : items_of(heap, value)) {
    const Value subject = kAttribute ? follow_attribute(heap, item, arguments.positional[0]) : item;
    const bool holds =
        has_name ? apply_test(heap, name_argument("select", arguments.positional[kOffset]), subject,
                              rest)
                 : is_true(subject);
    if (holds == kKeep) out.push_back(item);
  }
  return make_iterator(heap, std::move(out));
}

Value attr_filter(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  // Only attributes are found here, not the keys of a mapping.
  if (value.is(Kind::kDict) && !has_method(Kind::kDict, bound.text(0))) {
    return undefined_attribute(heap, value, bound.text(0));
  }
  return get_attribute(heap, value, bound.text(0));
}

}  // namespace

Value follow_attribute(Heap& heap, const Value& item, const Value& path) {
  if (path.is_none()) return item;
  if (!path.is_string()) return get_item(heap, item, path);
  Value value = item;
  std::string_view rest = path.text();
  while (true) {
    heap.tick();
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool digits =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    const auto number = digits ? parse_integer(part, 10) : std::nullopt;
    value = get_item(heap, value,
                     number ? Value::integer(*number) : make_string(heap, std::string(part)));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

Filter find_sequence_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> table{{"attr", attr_filter},
                                                        {"batch", batch_filter},
                                                        {"count", length_filter},
                                                        {"d", default_filter},
                                                        {"default", default_filter},
                                                        {"dictsort", dict_sort_filter},
                                                        {"first", first_filter},
                                                        {"groupby", group_by_filter},
                                                        {"items", items_filter},
                                                        {"join", join_filter},
                                                        {"last", last_filter},
                                                        {"length", length_filter},
                                                        {"list", list_filter},
                                                        {"map", map_filter},
                                                        {"max", extreme_filter<true>},
                                                        {"min", extreme_filter<false>},
                                                        {"reject", choose_filter<false, false>},
                                                        {"rejectattr", choose_filter<false, true>},
                                                        {"reverse", reverse_filter},
                                                        {"select", choose_filter<true, false>},
                                                        {"selectattr", choose_filter<true, true>},
                                                        {"slice", slice_filter},
                                                        {"sort", sort_filter},
                                                        {"sum", sum_filter},
                                                        {"unique", unique_filter}};
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

bool has_filter(std::string_view name) {
  return find_text_filter(name) != nullptr || find_sequence_filter(name) != nullptr;
}

Value apply_filter(Heap& heap, std::string_view name, const Value& value,
                   const Arguments& arguments) {
  heap.tick();
  Filter filter = find_sequence_filter(name);
  if (filter == nullptr) filter = find_text_filter(name);
  if (filter == nullptr) fail("No filter named {}.", quoted(name));
  return filter(heap, value, arguments);
}

}  // namespace quire::jinja
