#include "roofline/hardware/json_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace quire {
namespace {

namespace json = boost::json;

constexpr size_t kMaxListLength = 65536;

std::string shown(const json::value& value) {
  constexpr size_t kMaxShown = 60;
  std::string text = json::serialize(value);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

std::optional<double> as_number(const json::value& value) {
  if (value.is_double()) return value.get_double();
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  return std::nullopt;
}

// Returns an integer, which may be written as 1.0 or 1e6.
std::optional<int64_t> as_integer(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    const double number = value.get_double();
    if (std::abs(number) < 1e15 && number == std::floor(number)) return std::llround(number);
  }
  return std::nullopt;
}

}  // namespace

std::string duplicate_key(std::string_view text) {
  struct Level {
    std::set<std::string_view> keys;
    std::string_view last;
  };
  std::vector<Level> levels;
  const auto end_of_string = [text](size_t at) {
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    return std::min(at, text.size());
  };
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' || text[at] == '[') levels.emplace_back();
    if ((text[at] == '}' || text[at] == ']') && !levels.empty()) levels.pop_back();
    if (text[at] != '"') continue;
    const size_t end = end_of_string(at + 1);
    const std::string_view key = text.substr(at + 1, end - at - 1);
    const size_t next = text.find_first_not_of(" \t\r\n", end + 1);
    at = end;
    if (levels.empty() || next == std::string_view::npos || text[next] != ':') continue;
    levels.back().last = key;
    if (levels.back().keys.insert(key).second) continue;
    std::string path;
    for (const Level& level : levels) {
      if (!level.last.empty()) path += (path.empty() ? "" : ": ") + std::string(level.last);
    }
    return path;
  }
  return {};
}

Result<json::object> parse_json_object(std::string_view text, std::string_view where,
                                       size_t max_bytes) {
  if (text.size() > max_bytes) {
    return too_large("{}: expected at most {} bytes, got {}", where, max_bytes, text.size());
  }
  json::parse_options options;
  options.max_depth = 32;
  json::error_code error;
  json::value value;
  try {
    value = json::parse({text.data(), text.size()}, error, {}, options);
  } catch (const std::exception& e) {
    return invalid_argument("{}: {}", where, e.what());
  }
  if (error) return invalid_argument("{}: expected JSON: {}", where, error.message());
  if (!value.is_object()) {
    return invalid_argument("{}: expected a JSON object, got {}", where, shown(value));
  }
  return std::move(value.get_object());
}

const json::value* JsonFields::find(std::string_view key) const {
  const json::value* value = object_->if_contains({key.data(), key.size()});
  return value == nullptr || value->is_null() ? nullptr : value;
}

void JsonFields::fail(std::string message) const {
  if (status_->ok()) {
    *status_ = Status(StatusCode::kInvalidArgument, fmt::format("{}: {}", where_, message));
  }
}

void JsonFields::fail_kind(std::string_view key, std::string_view expected,
                           const json::value& got) const {
  fail(fmt::format("{}: expected {}, got {}", key, expected, shown(got)));
}

int64_t JsonFields::integer(std::initializer_list<std::string_view> keys,
                            std::optional<int64_t> default_value, int64_t min, int64_t max) const {
  for (const std::string_view key : keys) {
    const json::value* value = find(key);
    if (value == nullptr) continue;
    const std::optional<int64_t> number = as_integer(*value);
    if (number && *number >= min && *number <= max) return *number;
    fail_kind(key, fmt::format("an integer from {} to {}", min, max), *value);
    return default_value.value_or(min);
  }
  if (!default_value) fail(fmt::format("{}: expected an integer, got nothing", *keys.begin()));
  return default_value.value_or(min);
}

double JsonFields::number(std::string_view key, double default_value, NumberRange range) const {
  const json::value* value = find(key);
  if (value == nullptr) return default_value;
  const std::optional<double> number = as_number(*value);
  if (number && std::isfinite(*number) && *number >= range.min && *number <= range.max) {
    return *number;
  }
  fail_kind(key, fmt::format("a number from {:g} to {:g}", range.min, range.max), *value);
  return default_value;
}

bool JsonFields::boolean(std::string_view key, bool default_value) const {
  const json::value* value = find(key);
  if (value == nullptr) return default_value;
  if (value->is_bool()) return value->get_bool();
  fail_kind(key, "true or false", *value);
  return default_value;
}

std::string JsonFields::string(std::string_view key, std::string_view default_value) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::string(default_value);
  if (value->is_string()) return std::string(value->get_string());
  fail_kind(key, "a string", *value);
  return std::string(default_value);
}

std::vector<std::string> JsonFields::strings(std::string_view key) const {
  std::vector<std::string> result;
  const json::value* value = find(key);
  if (value == nullptr) return result;
  if (!value->is_array() || value->get_array().size() > kMaxListLength) {
    fail_kind(key, fmt::format("an array of at most {} strings", kMaxListLength), *value);
    return result;
  }
  for (const json::value& element : value->get_array()) {
    if (!element.is_string()) {
      fail_kind(key, "strings", element);
      return {};
    }
    result.emplace_back(element.get_string());
  }
  return result;
}

std::vector<int64_t> JsonFields::integers(std::string_view key) const {
  std::vector<int64_t> result;
  const json::value* value = find(key);
  if (value == nullptr) return result;
  if (!value->is_array() || value->get_array().size() > kMaxListLength) {
    fail_kind(key, fmt::format("an array of at most {} integers", kMaxListLength), *value);
    return result;
  }
  for (const json::value& element : value->get_array()) {
    const std::optional<int64_t> number = as_integer(element);
    if (!number || *number < 0 || *number > std::numeric_limits<int32_t>::max()) {
      fail_kind(key, "integers from 0 to 2147483647", element);
      return {};
    }
    result.push_back(*number);
  }
  return result;
}

std::optional<JsonFields> JsonFields::child(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    fail_kind(key, "an object", *value);
    return std::nullopt;
  }
  return JsonFields(value->get_object(), fmt::format("{}: {}", where_, key), *status_);
}

}  // namespace quire
