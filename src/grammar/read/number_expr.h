// These functions make expressions that match numbers by their canonical decimal text, exact for
// any number of digits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/rules/expr.h"

namespace quire::grammar {

// A Decimal is a finite decimal, [-] digits [. digits], without unnecessary zeros.
struct Decimal {
  bool is_negative = false;
  std::string integer = "0";
  std::string fraction;

  // Reads a number in JSON's notation and applies its exponent. Returns nullopt if the text would
  // be longer than 400 digits.
  static std::optional<Decimal> parse(std::string_view text);
  bool is_zero() const { return integer == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  std::string to_string() const;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};
// Returns a negative number if a < b, 0 if a = b, and a positive number if a > b.
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

// Returns an expression of the numbers in a range. Exponents are allowed if nothing restricts the
// number, or if its only restriction are bounds that include all numbers with such an exponent.
// Returns an error if a divisor has too many digits: its automaton has as many states as the
// divisor is large.
Result<ExprId> number_expr(ExprStore& store, const NumberRange& range);

}  // namespace quire::grammar
