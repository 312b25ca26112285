#include "tokenizer/json/json_fields.h"

namespace quire {
namespace json = boost::json;
namespace {

constexpr size_t kMaxDepth = 64;

Status wrong_kind(std::string_view name, std::string_view expected, const json::value* value) {
  return invalid_argument("'{}': expected {}, got {}", name, expected,
                          value == nullptr ? "nothing" : kind_name(*value));
}

}  // namespace

Result<json::value> parse_json(std::string_view text, std::string_view what) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  // The pool must live as long as the value, so it is a counted resource.
  json::stream_parser parser(json::make_shared_resource<json::monotonic_resource>(), options);
  json::error_code error;
  const size_t consumed = parser.write_some(text.data(), text.size(), error);
  if (!error) parser.finish(error);
  if (!error && text.find_first_not_of(" \t\r\n", consumed) != text.npos) {
    error = json::error::extra_data;
  }
  if (error) {
    return invalid_argument("{}: not valid JSON near byte {}: {}", what, consumed, error.message());
  }
  return parser.release();
}

const json::value* find_field(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains({name.data(), name.size()});
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::string> string_field(const json::object& object, std::string_view name) {
  const json::value* value = find_field(object, name);
  if (value == nullptr || !value->is_string()) return wrong_kind(name, "a string", value);
  return std::string(as_view(value->get_string()));
}

Result<std::string> string_field_or(const json::object& object, std::string_view name,
                                    std::string_view fallback) {
  if (find_field(object, name) == nullptr) return std::string(fallback);
  return string_field(object, name);
}

Result<bool> bool_field_or(const json::object& object, std::string_view name, bool fallback) {
  const json::value* value = find_field(object, name);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) return wrong_kind(name, "true or false", value);
  return value->get_bool();
}

Result<int64_t> int_field(const json::object& object, std::string_view name) {
  const json::value* value = find_field(object, name);
  if (value != nullptr) {
    if (const auto number = as_int(*value)) return *number;
  }
  return wrong_kind(name, "an integer", value);
}

Result<int64_t> int_field_or(const json::object& object, std::string_view name, int64_t fallback) {
  if (find_field(object, name) == nullptr) return fallback;
  return int_field(object, name);
}

Result<const json::array*> array_field(const json::object& object, std::string_view name) {
  const json::value* value = find_field(object, name);
  if (value == nullptr || !value->is_array()) return wrong_kind(name, "an array", value);
  return &value->get_array();
}

Result<const json::object*> object_field(const json::object& object, std::string_view name) {
  const json::value* value = find_field(object, name);
  if (value == nullptr || !value->is_object()) return wrong_kind(name, "an object", value);
  return &value->get_object();
}

Result<const json::object*> as_object(const json::value& value, std::string_view what) {
  if (!value.is_object()) {
    return invalid_argument("{}: expected an object, got {}", what, kind_name(value));
  }
  return &value.get_object();
}

std::optional<int64_t> as_int(const json::value& value) {
  // A number is stored as uint64 only if it does not fit int64.
  if (value.is_int64()) return value.get_int64();
  return std::nullopt;
}

std::string_view as_view(const json::string& string) { return {string.data(), string.size()}; }

std::string_view kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "nothing";
}

}  // namespace quire
