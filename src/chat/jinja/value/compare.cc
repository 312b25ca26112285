// This file has Python's equality, order and membership.
#include <algorithm>
#include <array>
#include <cmath>

#include "chat/jinja/value/operators.h"

namespace quire::jinja {
namespace {

bool equal_sequences(Heap& heap, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equals(heap, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Heap& heap, const DictNode& a, const DictNode& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find_key(heap, b, key);
    if (other == nullptr || !equals(heap, value, *other)) return false;
  }
  return true;
}

// Returns a < b or a <= b for kinds that have an order.
bool ordered(Heap& heap, const Value& a, const Value& b, CompareOp op) {
  heap.tick();
  const auto decide = [op](int order) {
    switch (op) {
      case CompareOp::kLt:
        return order < 0;
      case CompareOp::kLe:
        return order <= 0;
      case CompareOp::kGt:
        return order > 0;
      default:
        return order >= 0;
    }
  };
  if (a.is_number() && b.is_number()) {
    if (std::isnan(a.as_float()) || std::isnan(b.as_float())) return false;
    return decide(compare_keys(a, b));
  }
  if (a.is_string() && b.is_string()) {
    heap.tick_bytes(std::min(a.text().size(), b.text().size()));
    return decide(a.text().compare(b.text()));
  }
  if ((a.is(Kind::kList) && b.is(Kind::kList)) || (a.is(Kind::kTuple) && b.is(Kind::kTuple))) {
    const std::vector<Value>&x = a.items(), &y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equals(heap, x[i], y[i])) return ordered(heap, x[i], y[i], op);
    }
    return decide(x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0);
  }
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  constexpr std::array<std::string_view, 6> kSymbols{"==", "!=", "<", "<=", ">", ">="};
  fail("'{}' not supported between instances of '{}' and '{}'", kSymbols[static_cast<size_t>(op)],
       type_name(a), type_name(b));
}

}  // namespace

bool equals(Heap& heap, const Value& a, const Value& b) {
  heap.tick();
  if (a.is_number() && b.is_number()) {
    if (std::isnan(a.as_float()) || std::isnan(b.as_float())) return false;
    return compare_keys(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      heap.tick_bytes(std::min(a.text().size(), b.text().size()));
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return equal_sequences(heap, a.items(), b.items());
    case Kind::kView:
      return a.get<SequenceNode>().view_name == b.get<SequenceNode>().view_name &&
             equal_sequences(heap, a.items(), b.items());
    case Kind::kDict:
      return equal_dicts(heap, a.dict(), b.dict());
    case Kind::kRange: {
      const RangeNode &x = a.range(), &y = b.range();
      return x.size() == y.size() &&
             (x.size() == 0 || (x.start == y.start && (x.size() == 1 || x.step == y.step)));
    }
    case Kind::kFunction:
      return a.as_function() == b.as_function();
    default:
      return a.identity() == b.identity();
  }
}

bool less_than(Heap& heap, const Value& a, const Value& b) {
  return ordered(heap, a, b, CompareOp::kLt);
}

bool compare(Heap& heap, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEq:
      return equals(heap, a, b);
    case CompareOp::kNe:
      return !equals(heap, a, b);
    case CompareOp::kIn:
      return contains(heap, b, a);
    case CompareOp::kNotIn:
      return !contains(heap, b, a);
    default:
      return ordered(heap, a, b, op);
  }
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string()) {
        fail("'in <string>' requires string as left operand, not {}", type_name(item));
      }
      heap.tick_bytes(container.text().size());
      return container.text().find(item.text()) != std::string_view::npos;
    case Kind::kDict:
      return find_key(heap, container.dict(), item) != nullptr;
    default:
      break;
  }
  if (!is_iterable(container)) fail("argument of type '{}' is not iterable", type_name(container));
  for (const Value& value : items_of(heap, container)) {
    if (equals(heap, value, item)) return true;
  }
  return false;
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFunction:
      return a.as_int() == b.as_int();
    case Kind::kString:
      return a.identity() == b.identity() || a.text() == b.text();  // mostly interned
    case Kind::kTuple:
      return a.identity() == b.identity() || (a.items().empty() && b.items().empty());
    default:
      return a.identity() != nullptr && a.identity() == b.identity();
  }
}

}  // namespace quire::jinja
