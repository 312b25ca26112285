#include "models/config_reader.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "models/family.h"

namespace quire {
namespace {

constexpr size_t kMaxListLength = 65536;

boost::json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::optional<double> as_number(const boost::json::value& value) {
  if (value.is_double()) return value.get_double();
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  // transformers writes numbers that JSON lacks (infinity, for example) as an object.
  const boost::json::value* special =
      value.is_object() ? value.get_object().if_contains("__float__") : nullptr;
  if (special != nullptr && *special == "Infinity") return 1e300;
  return std::nullopt;
}

}  // namespace

std::string shown(const boost::json::value& value) {
  constexpr size_t kMaxShown = 60;
  std::string text = boost::json::serialize(value);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
  return text;
}

const boost::json::value* ConfigReader::find_raw(std::string_view key) const {
  for (const KeyAlias& alias : aliases_) {
    if (alias.key != key) continue;
    const boost::json::value* value = object_->if_contains(view(alias.alias));
    if (value != nullptr) return value;
  }
  return object_->if_contains(view(key));
}

const boost::json::value* ConfigReader::find(std::string_view key) const {
  const boost::json::value* value = find_raw(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool ConfigReader::is_null(std::string_view key) const {
  const boost::json::value* value = find_raw(key);
  return value != nullptr && value->is_null();
}

std::optional<double> ConfigReader::positive_or_null(std::string_view key,
                                                     double default_value) const {
  if (is_null(key)) return std::nullopt;
  return positive(key, default_value);
}

bool ConfigReader::has(std::string_view key) const { return find(key) != nullptr; }

void ConfigReader::fail(std::string message) const {
  if (status_->ok()) *status_ = invalid_argument("{}: {}", where_, message);
}

void ConfigReader::fail_kind(std::string_view key, std::string_view expected,
                             const boost::json::value& got) const {
  fail(fmt::format("{}: expected {}, got {}", key, expected, shown(got)));
}

int64_t ConfigReader::integer(std::string_view key, IntRange range,
                              std::optional<int64_t> default_value) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) {
    if (!default_value) fail(fmt::format("{}: expected an integer, got nothing", key));
    return default_value.value_or(range.min);
  }
  // A list of equal numbers, one per layer, is read as one number.
  if (value->is_array() && !value->get_array().empty()) {
    const boost::json::array& list = value->get_array();
    if (std::all_of(list.begin(), list.end(),
                    [&](const boost::json::value& one) { return one == list.front(); }))
      value = &list.front();
  }
  const auto number = as_number(*value);
  // Some tools write 8.0 for 8.
  if (!number || *number != std::floor(*number) || *number < static_cast<double>(range.min) ||
      *number > static_cast<double>(range.max)) {
    fail_kind(key, fmt::format("an integer in [{}, {}]", range.min, range.max), *value);
    return default_value.value_or(range.min);
  }
  return static_cast<int64_t>(*number);
}

double ConfigReader::positive(std::string_view key, std::optional<double> default_value) const {
  const auto number = optional_positive(key);
  if (number) return *number;
  if (!default_value) fail(fmt::format("{}: expected a positive number, got nothing", key));
  return default_value.value_or(1.0);
}

std::optional<double> ConfigReader::optional_positive(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_number(*value);
  if (!number || !std::isfinite(*number) || *number <= 0.0 || *number > 1e30) {
    fail_kind(key, "a positive number", *value);
    return std::nullopt;
  }
  return number;
}

bool ConfigReader::boolean(std::string_view key, bool default_value) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) return default_value;
  if (!value->is_bool()) {
    fail_kind(key, "true or false", *value);
    return default_value;
  }
  return value->get_bool();
}

std::string ConfigReader::string(std::string_view key, std::string_view default_value) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) return std::string(default_value);
  if (!value->is_string()) {
    fail_kind(key, "a string", *value);
    return std::string(default_value);
  }
  const boost::json::string& text = value->get_string();
  return std::string(text.data(), text.size());
}

std::vector<double> ConfigReader::numbers(std::string_view key) const {
  const boost::json::value* value = find(key);
  std::vector<double> numbers;
  if (value == nullptr) return numbers;
  if (!value->is_array() || value->get_array().size() > kMaxListLength) {
    fail_kind(key, "a list of numbers", *value);
    return numbers;
  }
  for (const boost::json::value& element : value->get_array()) {
    const auto number = as_number(element);
    if (!number) {
      fail_kind(key, "a list of numbers", element);
      return numbers;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::pair<double, double>> ConfigReader::number_pairs(std::string_view key) const {
  const boost::json::value* value = find(key);
  std::vector<std::pair<double, double>> pairs;
  if (value == nullptr) return pairs;
  constexpr std::string_view kExpected = "a list of pairs of numbers";
  if (!value->is_array() || value->get_array().size() > kMaxListLength) {
    fail_kind(key, kExpected, *value);
    return pairs;
  }
  for (const boost::json::value& element : value->get_array()) {
    const boost::json::array* two = element.if_array();
    const bool is_pair = two != nullptr && two->size() == 2;
    const auto first = is_pair ? as_number(two->at(0)) : std::nullopt;
    const auto second = is_pair ? as_number(two->at(1)) : std::nullopt;
    if (!first || !second) {
      fail_kind(key, kExpected, element);
      return pairs;
    }
    pairs.emplace_back(*first, *second);
  }
  return pairs;
}

std::vector<std::string> ConfigReader::strings(std::string_view key) const {
  const boost::json::value* value = find(key);
  std::vector<std::string> strings;
  if (value == nullptr) return strings;
  if (!value->is_array() || value->get_array().size() > kMaxListLength) {
    fail_kind(key, "a list of strings", *value);
    return strings;
  }
  for (const boost::json::value& element : value->get_array()) {
    if (!element.is_string()) {
      fail_kind(key, "a list of strings", element);
      return strings;
    }
    strings.emplace_back(element.get_string().data(), element.get_string().size());
  }
  return strings;
}

int64_t ConfigReader::length(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) return 0;
  if (value->is_array()) return static_cast<int64_t>(value->get_array().size());
  return value->is_string() ? static_cast<int64_t>(value->get_string().size()) : 0;
}

bool ConfigReader::is_string(std::string_view key) const {
  const boost::json::value* value = find(key);
  return value != nullptr && value->is_string();
}

bool ConfigReader::is_integer(std::string_view key) const {
  const boost::json::value* value = find(key);
  return value != nullptr && value->is_int64();
}

std::vector<ConfigReader> ConfigReader::children(std::string_view key) const {
  const boost::json::value* value = find(key);
  std::vector<ConfigReader> children;
  if (value == nullptr) return children;
  if (!value->is_array() || value->get_array().size() > kMaxListLength) {
    fail_kind(key, "a list of objects", *value);
    return children;
  }
  for (const boost::json::value& element : value->get_array()) {
    if (!element.is_object()) {
      fail_kind(key, "a list of objects", element);
      return children;
    }
    const std::string where = fmt::format("{}: {}: {}", where_, key, children.size());
    children.emplace_back(element.get_object(), where, std::span<const KeyAlias>(), *status_);
  }
  return children;
}

std::optional<ConfigReader> ConfigReader::child(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    fail_kind(key, "an object", *value);
    return std::nullopt;
  }
  return ConfigReader(value->get_object(), fmt::format("{}: {}", where_, key), {}, *status_);
}

}  // namespace quire
