// Arguments are the arguments of a call. Bound assigns them to the parameters of a function as
// Python does.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/value/value.h"

namespace quire::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Bound holds the arguments in the order of the function's parameters.
class Bound {
 public:
  // Fails when there are too many arguments, when one is unknown or given twice, or when one of the
  // first `num_required` is missing.
  Bound(std::string_view callee, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, size_t num_required = 0);

  bool has(size_t i) const { return values_[i].has_value(); }
  // Precondition: has(i) or i < num_required.
  const Value& operator[](size_t i) const { return *values_[i]; }
  // With `none_is_absent`, `otherwise` also replaces an explicit None.
  Value value_or(size_t i, Value otherwise) const {
    return has(i) ? *values_[i] : std::move(otherwise);
  }

  std::string_view text(size_t i) const;  // fails unless a str
  int64_t integer(size_t i) const;        // fails unless an int or bool
  int64_t integer_or(size_t i, int64_t otherwise) const { return has(i) ? integer(i) : otherwise; }
  bool truth_or(size_t i, bool otherwise) const;
  bool is_none_or_absent(size_t i) const { return !has(i) || (*this)[i].is_none(); }

 private:
  std::string callee_;
  std::vector<std::string_view> parameters_;
  std::vector<std::optional<Value>> values_;
};

// Fails when a function without parameters gets arguments.
void no_arguments(std::string_view callee, const Arguments& arguments);

}  // namespace quire::jinja
