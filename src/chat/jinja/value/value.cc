#include "chat/jinja/value/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

constexpr int64_t kNodeBytes = 96;  // a node with its control block, about
constexpr int64_t kValueBytes = static_cast<int64_t>(sizeof(Value));
constexpr int64_t kMaxRange = 100000;  // the sandbox's own limit

int depth_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return value.get<SequenceNode>().depth;
    case Kind::kDict:
      return value.get<DictNode>().depth;
    case Kind::kIterator:
      return value.get<IteratorNode>().depth;
    case Kind::kCycler:
      return value.get<CyclerNode>().depth;
    case Kind::kJoiner:
      return value.get<JoinerNode>().depth;
    case Kind::kMethod:
      return depth_of(value.get<MethodNode>().self) + 1;
    default:
      return 0;
  }
}

int checked_depth(int depth) {
  if (depth > kMaxValueDepth) fail_limit("values nest deeper than {}", kMaxValueDepth);
  return depth;
}

int depth_over(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return checked_depth(depth + 1);
}

Value make_sequence(Heap& heap, Kind kind, std::vector<Value> items) {
  auto node = std::make_shared<SequenceNode>();
  node->charge(heap, kNodeBytes + kValueBytes * static_cast<int64_t>(items.capacity()));
  heap.tick(1 + static_cast<int64_t>(items.size() / 8));
  node->depth = depth_over(items);
  node->items = std::move(items);
  return Value::node(kind, std::move(node));
}

// Returns the order of the classes of keys. Numbers of all kinds are one class because 1 == 1.0 ==
// True.
int key_class(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return 0;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kUInt:
    case Kind::kFloat:
      return 1;
    case Kind::kString:
      return 2;
    case Kind::kTuple:
      return 3;
    case Kind::kUndefined:
      return 4;
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      fail("unhashable type: '{}'", type_name(value));
    default:
      return 5;  // compared by identity
  }
}

template <typename T>
int sign_of(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return sign_of(a.as_int(), b.as_int());
  if (a.is(Kind::kUInt) && b.is(Kind::kUInt)) return sign_of(a.as_uint(), b.as_uint());
  if (a.is(Kind::kUInt) && b.is_integral()) return 1;
  if (b.is(Kind::kUInt) && a.is_integral()) return -1;
  const double x = a.as_float(), y = b.as_float();
  // NaN has no place in an order. It is put first, so that sorting works.
  if (std::isnan(x) || std::isnan(y)) return sign_of(std::isnan(y), std::isnan(x));
  return sign_of(x, y);
}

}  // namespace

Value Value::large(uint64_t u) { return Value(Kind::kUInt, static_cast<int64_t>(u)); }
Value Value::real(double d) { return Value(Kind::kFloat, std::bit_cast<int64_t>(d)); }

Value Value::node(Kind kind, std::shared_ptr<Node> node) {
  Value value(kind, 0);
  value.node_ = std::move(node);
  return value;
}

Value Value::literal(std::string text) {
  auto node = std::make_shared<StringNode>();
  node->length = num_code_points(text);
  node->text = std::move(text);
  return Value::node(Kind::kString, std::move(node));
}

double Value::as_float() const {
  if (kind_ == Kind::kFloat) return std::bit_cast<double>(int_);
  if (kind_ == Kind::kUInt) return static_cast<double>(as_uint());
  return static_cast<double>(int_);
}

std::string_view Value::text() const { return get<StringNode>().text; }
int64_t Value::length() const { return get<StringNode>().length; }
const std::vector<Value>& Value::items() const { return get<SequenceNode>().items; }
const DictNode& Value::dict() const { return get<DictNode>(); }
const RangeNode& Value::range() const { return get<RangeNode>(); }

int64_t RangeNode::size() const {
  if (step > 0) return stop > start ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value make_string(Heap& heap, std::string text) {
  auto node = std::make_shared<StringNode>();
  node->charge(heap, kNodeBytes + static_cast<int64_t>(text.capacity()));
  heap.tick_bytes(text.size());
  node->length = num_code_points(text);
  node->text = std::move(text);
  return Value::node(Kind::kString, std::move(node));
}

Value make_list(Heap& heap, std::vector<Value> items) {
  return make_sequence(heap, Kind::kList, std::move(items));
}

Value make_tuple(Heap& heap, std::vector<Value> items) {
  return make_sequence(heap, Kind::kTuple, std::move(items));
}

Value make_view(Heap& heap, std::string_view name, std::vector<Value> items) {
  Value view = make_sequence(heap, Kind::kView, std::move(items));
  view.get<SequenceNode>().view_name = name;
  return view;
}

Value make_iterator(Heap& heap, std::vector<Value> items) {
  auto node = std::make_shared<IteratorNode>();
  node->charge(heap, kNodeBytes + kValueBytes * static_cast<int64_t>(items.capacity()));
  heap.tick(1 + static_cast<int64_t>(items.size() / 8));
  node->depth = depth_over(items);
  node->items = std::move(items);
  return Value::node(Kind::kIterator, std::move(node));
}

Value make_dict(Heap& heap, std::vector<Entry> entries) {
  auto node = std::make_shared<DictNode>();
  node->charge(heap, kNodeBytes + (2 * kValueBytes + 4) * static_cast<int64_t>(entries.capacity()));
  heap.tick(1 + static_cast<int64_t>(entries.size()));
  for (const auto& [key, value] : entries) {
    require_hashable(key);
    node->depth = std::max({node->depth, depth_of(key) + 1, depth_of(value) + 1});
  }
  checked_depth(node->depth);
  const auto by_key = [&](uint32_t a, uint32_t b) {
    return compare_keys(entries[a].first, entries[b].first) < 0;
  };
  std::vector<uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), by_key);
  // A key keeps its first position and gets its last value.
  std::vector<bool> dropped(entries.size());
  bool any_dropped = false;
  for (size_t i = 1, first = 0; i < order.size(); ++i) {
    if (by_key(order[first], order[i])) {
      first = i;
      continue;
    }
    entries[order[first]].second = std::move(entries[order[i]].second);
    dropped[order[i]] = any_dropped = true;
  }
  if (any_dropped) {
    std::vector<Entry> kept;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!dropped[i]) kept.push_back(std::move(entries[i]));
    }
    entries = std::move(kept);
    order.resize(entries.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), by_key);
  }
  node->entries = std::move(entries);
  node->sorted = std::move(order);
  return Value::node(Kind::kDict, std::move(node));
}

Value make_range(Heap& heap, int64_t start, int64_t stop, int64_t step) {
  if (step == 0) fail("range() arg 3 must not be zero");
  // The size of a range with ends this far apart would overflow. It has too many items anyway,
  // unless its step is huge.
  constexpr int64_t kFar = int64_t{1} << 60;
  if (std::max({start, stop, step}) > kFar || std::min({start, stop, step}) < -kFar) {
    fail("range(): numbers beyond 2**60 are not supported");
  }
  auto node = std::make_shared<RangeNode>();
  node->charge(heap, kNodeBytes);
  node->start = start;
  node->stop = stop;
  node->step = step;
  if (node->size() > kMaxRange) {
    fail_limit("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  return Value::node(Kind::kRange, std::move(node));
}

Value make_method(Heap& heap, Value self, std::string_view name) {
  auto node = std::make_shared<MethodNode>();
  node->charge(heap, kNodeBytes + static_cast<int64_t>(name.size()));
  checked_depth(depth_of(self) + 1);
  node->self = std::move(self);
  node->name = std::string(name);
  return Value::node(Kind::kMethod, std::move(node));
}

Value make_undefined(Heap& heap, std::string message) {
  auto node = std::make_shared<UndefinedNode>();
  node->charge(heap, kNodeBytes + static_cast<int64_t>(message.capacity()));
  node->message = std::move(message);
  return Value::node(Kind::kUndefined, std::move(node));
}

Value make_cycler(Heap& heap, std::vector<Value> items) {
  if (items.empty()) fail("at least one item has to be provided");
  auto node = std::make_shared<CyclerNode>();
  node->charge(heap, kNodeBytes + kValueBytes * static_cast<int64_t>(items.capacity()));
  node->depth = depth_over(items);
  node->items = std::move(items);
  return Value::node(Kind::kCycler, std::move(node));
}

Value make_joiner(Heap& heap, Value separator) {
  auto node = std::make_shared<JoinerNode>();
  node->charge(heap, kNodeBytes);
  node->depth = checked_depth(depth_of(separator) + 1);
  node->separator = std::move(separator);
  return Value::node(Kind::kJoiner, std::move(node));
}

void fail_undefined(const Value& value) { fail("{}", value.get<UndefinedNode>().message); }

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kUInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.get<SequenceNode>().view_name;
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kFunction:
      return "function";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

void require_hashable(const Value& value) {
  if (key_class(value) != 3) return;
  for (const Value& item : value.items()) require_hashable(item);
}

int compare_keys(const Value& a, const Value& b) {
  const int a_class = key_class(a), b_class = key_class(b);
  if (a_class != b_class) return sign_of(a_class, b_class);
  switch (a_class) {
    case 1:
      return compare_numbers(a, b);
    case 2:
      return a.text().compare(b.text());
    case 3: {
      const std::vector<Value>&x = a.items(), &y = b.items();
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        if (const int order = compare_keys(x[i], y[i]); order != 0) return order;
      }
      return sign_of(x.size(), y.size());
    }
    case 5:
      if (a.is(Kind::kFunction) && b.is(Kind::kFunction)) return sign_of(a.as_int(), b.as_int());
      return sign_of(a.identity(), b.identity());
    default:
      return 0;
  }
}

const Value* find_key(Heap& heap, const DictNode& dict, const Value& key) {
  require_hashable(key);
  heap.tick();
  const auto it = std::lower_bound(dict.sorted.begin(), dict.sorted.end(), key,
                                   [&](uint32_t i, const Value& wanted) {
                                     return compare_keys(dict.entries[i].first, wanted) < 0;
                                   });
  if (it == dict.sorted.end() || compare_keys(dict.entries[*it].first, key) != 0) return nullptr;
  return &dict.entries[*it].second;
}

const Value* find_key(const DictNode& dict, std::string_view key) {
  const auto it = std::lower_bound(dict.sorted.begin(), dict.sorted.end(), key,
                                   [&](uint32_t i, std::string_view wanted) {
                                     const Value& have = dict.entries[i].first;
                                     if (!have.is_string()) return key_class(have) < 2;
                                     return have.text() < wanted;
                                   });
  if (it == dict.sorted.end()) return nullptr;
  const Entry& entry = dict.entries[*it];
  return entry.first.is_string() && entry.first.text() == key ? &entry.second : nullptr;
}

}  // namespace quire::jinja
