// Numbers as expressions over their canonical decimal text, exact for any number of digits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/rules/expr.h"

namespace quire::grammar {

// A finite decimal: [-] digits [. digits], without needless zeros.
struct Decimal {
  bool is_negative = false;
  std::string integer = "0";
  std::string fraction;

  // Reads JSON's number text and works its exponent in. Returns nullopt when the text would be
  // longer than 400 digits.
  static std::optional<Decimal> parse(std::string_view text);
  bool is_zero() const { return integer == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  std::string to_string() const;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};
// Returns a negative number, zero or a positive one when a is below, equal to or above b.
int compare(const Decimal& a, const Decimal& b);

struct NumberBound {
  Decimal value;
  bool is_exclusive = false;
};

struct NumberRange {
  bool is_integer = false;
  std::optional<NumberBound> lower, upper;
  std::vector<Decimal> divisors;  // positive
  std::vector<Decimal> excluded;  // values that are not allowed
};

// Exponents are allowed where nothing bounds the number, and where the bounds leave room for all numbers
// with the exponent, if nothing else does. Fails when a divisor has too many
// digits (its automaton has as many states as the divisor is large).
Result<ExprId> number_expr(ExprStore& store, const NumberRange& range);

}  // namespace quire::grammar
