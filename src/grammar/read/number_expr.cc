#include "grammar/read/number_expr.h"

#include <algorithm>
#include <charconv>

namespace quire::grammar {
namespace {

enum Phase : uint8_t { kInteger, kAfterPoint, kFraction };
enum CompareOp : uint8_t { kAtLeast, kAbove, kAtMost, kBelow, kNotEqual };
// The values of NumberState::b of kCompare.
enum Order : uint64_t { kEqualSoFar, kSmaller, kGreater };

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

bool satisfies(CompareOp op, Order order) {
  switch (op) {
    case kAtLeast:
      return order != kSmaller;
    case kAbove:
      return order == kGreater;
    case kAtMost:
      return order != kGreater;
    case kBelow:
      return order == kSmaller;
    case kNotEqual:
      return order != kEqualSoFar;
  }
  return false;
}

// A Constant is a text "INTEGER.FRACTION" that kCompare compares digits with. In the integer part,
// `position` counts digits; in the fraction it is the position in the constant's fraction.
struct Constant {
  std::string_view integer, fraction;
  explicit Constant(std::string_view text)
      : integer(text.substr(0, text.find('.'))), fraction(text.substr(text.find('.') + 1)) {}
};

Order order_digit(uint64_t so_far, uint8_t digit, char constant) {
  if (so_far != kEqualSoFar) return static_cast<Order>(so_far);
  if (digit == static_cast<uint8_t>(constant)) return kEqualSoFar;
  return digit < static_cast<uint8_t>(constant) ? kSmaller : kGreater;
}

// Returns how the integer part compares after all its digits.
Order integer_order(const Constant& constant, const NumberState& state) {
  if (state.position < constant.integer.size()) return kSmaller;
  return state.position > constant.integer.size() ? kGreater : static_cast<Order>(state.b);
}

std::optional<NumberState> compare_step(const Constant& constant, NumberState state, uint8_t byte) {
  if (state.phase == kInteger) {
    if (byte == '.') {
      state.b = integer_order(constant, state);
      state.position = 0;
      state.phase = kAfterPoint;
      return state;
    }
    if (!is_digit(byte)) return std::nullopt;
    if (state.position < constant.integer.size()) {
      state.b = order_digit(state.b, byte, constant.integer[state.position]);
      ++state.position;
    } else {
      state.position = static_cast<uint32_t>(constant.integer.size()) + 1;
      state.b = kGreater;
    }
    return state;
  }
  if (!is_digit(byte)) return std::nullopt;
  state.phase = kFraction;
  const bool has_digit = state.position < constant.fraction.size();
  state.b = order_digit(state.b, byte, has_digit ? constant.fraction[state.position] : '0');
  if (state.b != kEqualSoFar) state.position = 0;  // the rest cannot matter
  if (state.b == kEqualSoFar && has_digit) ++state.position;
  return state;
}

bool compare_accepts(const Constant& constant, const NumberState& state) {
  if (state.phase == kAfterPoint) return false;
  if (state.phase == kInteger && state.position == 0) return false;
  Order order = static_cast<Order>(state.b);
  uint32_t read = state.position;
  if (state.phase == kInteger) {
    order = integer_order(constant, state);
    read = 0;
  }
  if (order == kEqualSoFar && read < constant.fraction.size()) order = kSmaller;
  return satisfies(static_cast<CompareOp>(state.op), order);
}

// For kMultiple, a is the divisor and b the remainder, both scaled by 10^places; `position` is the
// number of decimal places still to be read.
std::optional<NumberState> multiple_step(NumberState state, uint8_t byte) {
  if (state.phase == kInteger && byte == '.') {
    state.phase = kAfterPoint;
    return state;
  }
  if (!is_digit(byte)) return std::nullopt;
  if (state.phase != kInteger) {
    state.phase = kFraction;
    if (state.position == 0) return byte == '0' ? std::optional(state) : std::nullopt;
    --state.position;
  }
  state.b = (state.b * 10 + (byte - '0')) % state.a;
  return state;
}

bool multiple_accepts(const NumberState& state) {
  if (state.phase == kAfterPoint) return false;
  uint64_t remainder = state.b;
  for (uint32_t i = 0; i < state.position; ++i) remainder = remainder * 10 % state.a;
  return remainder == 0;
}

ExprId compare_expr(ExprStore& store, CompareOp op, const Decimal& magnitude) {
  NumberState state;
  state.a = store.intern_text(magnitude.integer + "." + magnitude.fraction);
  state.op = op;
  return store.number(ExprKind::kCompare, state);
}

ExprId digits(ExprStore& store) { return store.byte_range('0', '9'); }

ExprId integer_syntax(ExprStore& store) {
  return store.any_of(
      {store.byte('0'), store.concat(store.byte_range('1', '9'), store.star(digits(store)))});
}

ExprId fraction_syntax(ExprStore& store) {
  return store.optional(store.concat(store.byte('.'), store.repeat(digits(store), 1, kUnbounded)));
}

ExprId exponent_syntax(ExprStore& store) {
  const ExprId e = store.bytes(ByteSet().set('e').set('E'));
  const ExprId sign = store.optional(store.bytes(ByteSet().set('+').set('-')));
  const ExprId parts[] = {e, sign, store.repeat(digits(store), 1, kUnbounded)};
  return store.optional(store.concat(parts));
}

Result<ExprId> multiple_expr(ExprStore& store, const Decimal& divisor) {
  constexpr uint64_t kMaxDivisor = 1'000'000;  // states of the automaton
  uint64_t scaled = 0;
  const std::string all = divisor.integer + divisor.fraction;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), scaled);
  if (error != std::errc() || scaled == 0 || scaled > kMaxDivisor) {
    return invalid_argument(
        "multipleOf: expected a positive number of at most {} when its decimal "
        "point is left out, got {}",
        kMaxDivisor, divisor.to_string());
  }
  NumberState state;
  state.a = scaled;
  state.position = static_cast<uint32_t>(divisor.fraction.size());
  return store.number(ExprKind::kMultiple, state);
}

// A reader of doubles may read larger exponents as zero or infinity.
constexpr int kMaxExponent = 300;

// Returns the greatest n with 10^n <= magnitude, which must not be zero.
int decade_of(const Decimal& magnitude) {
  if (magnitude.integer != "0") return static_cast<int>(magnitude.integer.size()) - 1;
  return -1 - static_cast<int>(magnitude.fraction.find_first_not_of('0'));
}

bool is_power_of_ten(const Decimal& magnitude) {
  const std::string digits = magnitude.integer + magnitude.fraction;
  return std::count(digits.begin(), digits.end(), '0') + 1 == std::ssize(digits) &&
         digits.find('1') != digits.npos;
}

// Returns an expression of exponents from `min` to `max`, with or without leading zero.
ExprId exponent_digits(ExprStore& store, int min, int max) {
  const Decimal least{.integer = std::to_string(min)}, most{.integer = std::to_string(max)};
  return store.concat(store.optional(store.byte('0')),
                      store.all_of({integer_syntax(store), compare_expr(store, kAtLeast, least),
                                    compare_expr(store, kAtMost, most)}));
}

// Returns magnitudes d[.ddd]e[+-]n for those n with which all of them lie within the bounds,
// because exponents do not fit the comparison digit by digit.
ExprId with_exponents(ExprStore& store, const NumberBound* near, const NumberBound* far) {
  int low = -kMaxExponent, high = kMaxExponent;
  if (far != nullptr) {
    if (far->value.is_zero()) return ExprStore::kNone;
    high = std::min(high, decade_of(far->value) - 1);
  }
  if (near != nullptr && !near->value.is_zero()) {
    const bool begins_decade = is_power_of_ten(near->value) && !near->is_exclusive;
    low = std::max(low, decade_of(near->value) + (begins_decade ? 0 : 1));
  }
  if (low > high) return ExprStore::kNone;
  std::vector<ExprId> exponents;
  if (high >= 0) {
    const ExprId digits = exponent_digits(store, std::max(low, 0), high);
    exponents.push_back(store.concat(store.optional(store.byte('+')), digits));
  }
  if (low < 0) {
    exponents.push_back(
        store.concat(store.byte('-'), exponent_digits(store, std::max(-high, 1), -low)));
  }
  const ExprId parts[] = {store.byte_range('1', '9'), fraction_syntax(store),
                          store.bytes(ByteSet().set('e').set('E')),
                          store.any_of(std::move(exponents))};
  return store.concat(parts);
}

// Returns the magnitudes (texts without a sign) of the numbers of `range` that have the given sign.
Result<ExprId> magnitudes(ExprStore& store, const NumberRange& range, bool is_negative) {
  ExprId syntax = integer_syntax(store);
  if (!range.is_integer) syntax = store.concat(syntax, fraction_syntax(store));
  std::vector<ExprId> parts{syntax};
  // The bounds away from zero and towards zero for this sign.
  const auto& far = is_negative ? range.lower : range.upper;
  const auto& opposite = is_negative ? range.upper : range.lower;
  const bool is_near =
      opposite && (opposite->value.is_negative == is_negative || opposite->value.is_zero());
  const NumberBound* near = is_near ? &*opposite : nullptr;
  if (far) {
    if (far->value.is_negative != is_negative && !far->value.is_zero()) return ExprStore::kNone;
    parts.push_back(compare_expr(store, far->is_exclusive ? kBelow : kAtMost, far->value));
  }
  if (near != nullptr) {
    parts.push_back(compare_expr(store, near->is_exclusive ? kAbove : kAtLeast, near->value));
  }
  for (const Decimal& divisor : range.divisors) {
    QUIRE_ASSIGN_OR_RETURN(const ExprId multiple, multiple_expr(store, divisor));
    parts.push_back(multiple);
  }
  for (const Decimal& value : range.excluded) {
    if (value.is_negative == is_negative || value.is_zero()) {
      parts.push_back(compare_expr(store, kNotEqual, value));
    }
  }
  const ExprId plain = store.all_of(std::move(parts));
  if (range.is_integer || !range.divisors.empty() || !range.excluded.empty()) return plain;
  return store.any_of({plain, with_exponents(store, near, far ? &*far : nullptr)});
}

}  // namespace

std::optional<NumberState> number_step(const ExprStore& store, ExprKind kind,
                                       const NumberState& state, uint8_t byte) {
  if (kind == ExprKind::kMultiple) return multiple_step(state, byte);
  return compare_step(Constant(store.text(state.a)), state, byte);
}

bool number_accepts(const ExprStore& store, ExprKind kind, const NumberState& state) {
  if (kind == ExprKind::kMultiple) return multiple_accepts(state);
  return compare_accepts(Constant(store.text(state.a)), state);
}

std::optional<Decimal> Decimal::parse(std::string_view text) {
  constexpr int kMaxDigits = 400;
  Decimal out;
  out.is_negative = text.starts_with('-');
  if (out.is_negative) text.remove_prefix(1);
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != text.npos) {
    std::string_view power = text.substr(e + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (error != std::errc() || end != power.data() + power.size()) return std::nullopt;
    text = text.substr(0, e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string all(text.substr(0, point));
  if (point < text.size()) all += text.substr(point + 1);
  if (all.empty() || all.size() > kMaxDigits || std::abs(exponent) > kMaxDigits)
    return std::nullopt;
  if (!std::all_of(all.begin(), all.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  int split = static_cast<int>(point) + exponent;
  if (split < 0) all.insert(0, static_cast<size_t>(-split), '0');
  split = std::max(split, 0);
  if (static_cast<size_t>(split) > all.size()) all.resize(static_cast<size_t>(split), '0');
  out.integer = all.substr(0, static_cast<size_t>(split));
  out.fraction = all.substr(static_cast<size_t>(split));
  out.integer.erase(0, std::min(out.integer.find_first_not_of('0'), out.integer.size()));
  if (out.integer.empty()) out.integer = "0";
  out.fraction.resize(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.is_negative = false;
  return out;
}

std::string Decimal::to_string() const {
  return (is_negative ? "-" : "") + integer + (fraction.empty() ? "" : "." + fraction);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  int order = 0;
  if (a.integer.size() != b.integer.size()) {
    order = a.integer.size() < b.integer.size() ? -1 : 1;
  } else {
    order = a.integer.compare(b.integer);
    if (order == 0) order = a.fraction.compare(b.fraction);  // no trailing zeros: as text
  }
  return a.is_negative ? -order : order;
}

Result<ExprId> number_expr(ExprStore& store, const NumberRange& range) {
  const ExprId minus = store.byte('-');
  if (!range.lower && !range.upper && range.divisors.empty() && range.excluded.empty()) {
    ExprId syntax = integer_syntax(store);
    if (!range.is_integer) {
      const ExprId parts[] = {syntax, fraction_syntax(store), exponent_syntax(store)};
      syntax = store.concat(parts);
    }
    return store.concat(store.optional(minus), syntax);
  }
  QUIRE_ASSIGN_OR_RETURN(const ExprId positive, magnitudes(store, range, false));
  QUIRE_ASSIGN_OR_RETURN(const ExprId negative, magnitudes(store, range, true));
  return store.any_of({positive, store.concat(minus, negative)});
}

}  // namespace quire::grammar
