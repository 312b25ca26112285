#include "chat/jinja/value/operators.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "chat/jinja/value/format.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

std::string_view symbol(BinaryOp op) {
  constexpr std::array<std::string_view, 7> kSymbols{"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void fail_operands(BinaryOp op, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (op == BinaryOp::kAdd && a.is_string()) {
    fail("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b));
}

[[noreturn]] void fail_overflow() { fail("integers beyond 64 bits are not supported"); }

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  bool base_overflow = false;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && (base_overflow || __builtin_mul_overflow(result, base, &result)))
      fail_overflow();
    base_overflow = __builtin_mul_overflow(base, base, &base);
  }
  return Value::integer(result);
}

Value integer_operation(BinaryOp op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &out)) fail_overflow();
      return Value::integer(out);
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(a, b, &out)) fail_overflow();
      return Value::integer(out);
    case BinaryOp::kMul:
      if (__builtin_mul_overflow(a, b, &out)) fail_overflow();
      return Value::integer(out);
    case BinaryOp::kDiv:
      if (b == 0) fail("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod: {
      if (b == 0) fail("integer division or modulo by zero");
      if (b == -1) return op == BinaryOp::kMod ? Value::integer(0) : negate(Value::integer(a));
      int64_t quotient = a / b, rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        --quotient;
      }
      return Value::integer(op == BinaryOp::kMod ? rest : quotient);
    }
    case BinaryOp::kPow:
      return integer_power(a, b);
  }
  fail_overflow();
}

double float_mod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Value float_operation(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(a + b);
    case BinaryOp::kSub:
      return Value::real(a - b);
    case BinaryOp::kMul:
      return Value::real(a * b);
    case BinaryOp::kPow: {
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      const double power = std::pow(a, b);
      if (std::isnan(power) && !std::isnan(a) && !std::isnan(b))
        fail("complex numbers are not supported");
      return Value::real(power);
    }
    case BinaryOp::kDiv:
      if (b == 0) fail("float division by zero");
      return Value::real(a / b);
    case BinaryOp::kFloorDiv:
      if (b == 0) fail("float floor division by zero");
      return Value::real(std::floor((a - float_mod(a, b)) / b + 0.5));
    case BinaryOp::kMod:
      if (b == 0) fail("float modulo");
      return Value::real(float_mod(a, b));
  }
  fail_overflow();
}

Value concatenate_strings(Heap& heap, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  std::string escaped;
  std::string_view left = a.text(), right = b.text();
  // When one side is markup, the other side is escaped.
  if (markup && !a.is_markup()) left = escaped = escape_html(left);
  if (markup && !b.is_markup()) right = escaped = escape_html(right);
  heap.check_room(left.size() + right.size());
  std::string out;
  out.reserve(left.size() + right.size());
  out.append(left).append(right);
  return make_string(heap, std::move(out)).with_markup(markup);
}

Value join_sequences(Heap& heap, const Value& a, const Value& b) {
  heap.check_room((a.items().size() + b.items().size()) * sizeof(Value));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Kind::kList) ? make_list(heap, std::move(items)) : make_tuple(heap, std::move(items));
}

Value repeat(Heap& heap, const Value& value, int64_t count) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  const uint64_t size =
      value.is_string() ? value.text().size() : value.items().size() * sizeof(Value);
  uint64_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) total = UINT64_MAX;
  heap.check_room(total);
  heap.tick(1 + static_cast<int64_t>(total / 64));
  if (size == 0 || times == 0) {
    if (value.is_string()) return make_string(heap, "").with_markup(value.is_markup());
    return value.is(Kind::kList) ? make_list(heap, {}) : make_tuple(heap, {});
  }
  if (value.is_string()) {
    std::string out;
    out.reserve(total);
    for (uint64_t i = 0; i < times; ++i) out += value.text();
    return make_string(heap, std::move(out)).with_markup(value.is_markup());
  }
  std::vector<Value> items;
  items.reserve(value.items().size() * times);
  for (uint64_t i = 0; i < times; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is(Kind::kList) ? make_list(heap, std::move(items))
                               : make_tuple(heap, std::move(items));
}

bool is_repeatable(const Value& value) {
  return value.is_string() || value.is(Kind::kList) || value.is(Kind::kTuple);
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kUInt:
      return true;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kRange:
      return value.range().size() > 0;
    default:
      return true;
  }
}

Value binary(Heap& heap, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_operation(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kUInt) || b.is(Kind::kUInt)) fail_overflow();
    return float_operation(op, a.as_float(), b.as_float());
  }
  if (op == BinaryOp::kAdd) {
    if (a.is_string() && b.is_string()) return concatenate_strings(heap, a, b);
    if ((a.is(Kind::kList) || a.is(Kind::kTuple)) && a.kind() == b.kind())
      return join_sequences(heap, a, b);
  }
  if (op == BinaryOp::kMul) {
    if (is_repeatable(a) && b.is_integral()) return repeat(heap, a, b.as_int());
    if (is_repeatable(b) && a.is_integral()) return repeat(heap, b, a.as_int());
  }
  if (op == BinaryOp::kMod && a.is_string()) return percent_format(heap, a, b);
  fail_operands(op, a, b);
}

Value negate(const Value& value) {
  if (value.is_integral()) {
    if (value.as_int() == INT64_MIN) fail_overflow();
    return Value::integer(-value.as_int());
  }
  if (value.is(Kind::kFloat)) return Value::real(-value.as_float());
  if (value.is_undefined()) fail_undefined(value);
  fail("bad operand type for unary -: '{}'", type_name(value));
}

Value plus(const Value& value) {
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is_number()) return value;
  if (value.is_undefined()) fail_undefined(value);
  fail("bad operand type for unary +: '{}'", type_name(value));
}

Value abs_value(const Value& value) {
  if (value.is_integral())
    return value.as_int() < 0 ? negate(value) : Value::integer(value.as_int());
  if (value.is(Kind::kFloat)) return Value::real(std::abs(value.as_float()));
  if (value.is(Kind::kUInt)) return value;
  if (value.is_undefined()) fail_undefined(value);
  fail("bad operand type for abs(): '{}'", type_name(value));
}

int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.length();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::kRange:
      return value.range().size();
    default:
      fail("object of type '{}' has no len()", type_name(value));
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

std::vector<Value> items_of(Heap& heap, const Value& value) {
  std::vector<Value> out;
  switch (value.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kString: {
      const std::string_view text = value.text();
      heap.check_room(static_cast<uint64_t>(value.length()) * 160);
      for (size_t i = 0; i < text.size();) {
        const size_t begin = i;
        next_code_point(text, i);
        out.push_back(make_string(heap, std::string(text.substr(begin, i - begin))));
      }
      return out;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      heap.tick(1 + static_cast<int64_t>(value.items().size() / 4));
      return value.items();
    case Kind::kDict:
      heap.tick(1 + static_cast<int64_t>(value.dict().entries.size() / 4));
      for (const Entry& entry : value.dict().entries) out.push_back(entry.first);
      return out;
    case Kind::kRange: {
      const RangeNode& range = value.range();
      heap.tick(1 + range.size() / 4);
      for (int64_t i = 0; i < range.size(); ++i)
        out.push_back(Value::integer(range.start + i * range.step));
      return out;
    }
    case Kind::kIterator: {
      auto& node = value.get<IteratorNode>();
      heap.tick(1 + static_cast<int64_t>(node.items.size() / 4));
      out.assign(node.items.begin() + static_cast<ptrdiff_t>(node.position), node.items.end());
      node.position = node.items.size();
      return out;
    }
    default:
      fail("'{}' object is not iterable", type_name(value));
  }
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace quire::jinja
