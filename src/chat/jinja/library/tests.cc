// These functions are Jinja's tests: they compute `value is name(arguments)`.
#include <map>

#include "chat/jinja/library/filters.h"
#include "chat/jinja/library/methods.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

using Test = bool (*)(Heap&, const Value&, const Arguments&);

template <bool (*kPredicate)(const Value&)>
bool unary(Heap&, const Value& value, const Arguments& arguments) {
  no_arguments("test", arguments);
  return kPredicate(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_true_constant(const Value& value) { return value.is(Kind::kBool) && value.as_bool(); }
bool is_false_constant(const Value& value) { return value.is(Kind::kBool) && !value.as_bool(); }
bool is_integer(const Value& value) { return value.is(Kind::kInt) || value.is(Kind::kUInt); }
bool is_float(const Value& value) { return value.is(Kind::kFloat); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is(Kind::kDict); }
bool is_escaped(const Value& value) { return value.is_markup(); }

// Returns whether the value has a length and can be indexed; undefined counts as such.
bool is_sequence(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      return true;
    default:
      return false;
  }
}

bool is_callable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kJoiner:
      return true;
    default:
      return false;
  }
}

template <CompareOp kOp>
bool compare_test(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {"other"}, 1);
  return compare(heap, kOp, value, bound[0]);
}

bool divisible(Heap& heap, const Value& value, const Value& by) {
  return equals(heap, binary(heap, BinaryOp::kMod, value, by), Value::integer(0));
}

bool divisible_by(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return divisible(heap, value, bound[0]);
}

bool is_even(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("even", arguments);
  return divisible(heap, value, Value::integer(2));
}

bool is_odd(Heap& heap, const Value& value, const Arguments& arguments) {
  no_arguments("odd", arguments);
  return equals(heap, binary(heap, BinaryOp::kMod, value, Value::integer(2)), Value::integer(1));
}

bool same_as(Heap&, const Value& value, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  return is_same(value, bound[0]);
}

bool is_in(Heap& heap, const Value& value, const Arguments& arguments) {
  const Bound bound("in", arguments, {"seq"}, 1);
  return contains(heap, bound[0], value);
}

bool is_lower_text(Heap& heap, const Value& value, const Arguments& arguments) {
  return is_true(call_method(heap, as_string(heap, value), "islower", arguments));
}

bool is_upper_text(Heap& heap, const Value& value, const Arguments& arguments) {
  return is_true(call_method(heap, as_string(heap, value), "isupper", arguments));
}

bool is_filter_name(Heap&, const Value& value, const Arguments&) {
  return value.is_string() && has_filter(value.text());
}

bool is_test_name(Heap&, const Value& value, const Arguments&) {
  return value.is_string() && has_test(value.text());
}

Test find_test(std::string_view name) {
  constexpr Test kEq = compare_test<CompareOp::kEq>, kNe = compare_test<CompareOp::kNe>,
                 kLt = compare_test<CompareOp::kLt>, kLe = compare_test<CompareOp::kLe>,
                 kGt = compare_test<CompareOp::kGt>, kGe = compare_test<CompareOp::kGe>;
  static const std::map<std::string_view, Test> table{{"!=", kNe},
                                                      {"<", kLt},
                                                      {"<=", kLe},
                                                      {"==", kEq},
                                                      {">", kGt},
                                                      {">=", kGe},
                                                      {"boolean", unary<is_boolean>},
                                                      {"callable", unary<is_callable>},
                                                      {"defined", unary<is_defined>},
                                                      {"divisibleby", divisible_by},
                                                      {"eq", kEq},
                                                      {"equalto", kEq},
                                                      {"escaped", unary<is_escaped>},
                                                      {"even", is_even},
                                                      {"false", unary<is_false_constant>},
                                                      {"filter", is_filter_name},
                                                      {"float", unary<is_float>},
                                                      {"ge", kGe},
                                                      {"greaterthan", kGt},
                                                      {"gt", kGt},
                                                      {"in", is_in},
                                                      {"integer", unary<is_integer>},
                                                      {"iterable", unary<is_iterable>},
                                                      {"le", kLe},
                                                      {"lessthan", kLt},
                                                      {"lower", is_lower_text},
                                                      {"lt", kLt},
                                                      {"mapping", unary<is_mapping>},
                                                      {"ne", kNe},
                                                      {"none", unary<is_none>},
                                                      {"number", unary<is_number>},
                                                      {"odd", is_odd},
                                                      {"sameas", same_as},
                                                      {"sequence", unary<is_sequence>},
                                                      {"string", unary<is_string>},
                                                      {"test", is_test_name},
                                                      {"true", unary<is_true_constant>},
                                                      {"undefined", unary<is_undefined>},
                                                      {"upper", is_upper_text}};
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace

bool has_test(std::string_view name) { return find_test(name) != nullptr; }

bool apply_test(Heap& heap, std::string_view name, const Value& value, const Arguments& arguments) {
  heap.tick();
  const Test test = find_test(name);
  if (test == nullptr) fail("No test named {}.", quoted(name));
  return test(heap, value, arguments);
}

}  // namespace quire::jinja
