#include "chat/jinja/value/arguments.h"

#include <algorithm>

#include "chat/jinja/value/operators.h"

namespace quire::jinja {

Bound::Bound(std::string_view callee, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, size_t num_required)
    : callee_(callee), parameters_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > parameters.size()) {
    fail("{}() takes at most {} arguments ({} given)", callee, parameters.size(),
         arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(parameters_.begin(), parameters_.end(), name);
    if (it == parameters_.end()) fail("{}() got an unexpected keyword argument '{}'", callee, name);
    auto& slot = values_[static_cast<size_t>(it - parameters_.begin())];
    if (slot) fail("{}() got multiple values for argument '{}'", callee, name);
    slot = value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (!values_[i]) fail("{}() missing required argument: '{}'", callee, parameters_[i]);
  }
}

void no_arguments(std::string_view callee, const Arguments& arguments) {
  const Bound bound(callee, arguments, {});
}

std::string_view Bound::text(size_t i) const {
  const Value& value = (*this)[i];
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) {
    fail("{}() argument '{}' must be str, not {}", callee_, parameters_[i], type_name(value));
  }
  return value.text();
}

int64_t Bound::integer(size_t i) const {
  const Value& value = (*this)[i];
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral()) {
    fail("{}() argument '{}' must be int, not {}", callee_, parameters_[i], type_name(value));
  }
  return value.as_int();
}

bool Bound::truth_or(size_t i, bool otherwise) const {
  return has(i) ? is_true((*this)[i]) : otherwise;
}

}  // namespace quire::jinja
