#include "server/json/json_members.h"

#include "server/json/json_body.h"

namespace quire::server {

namespace json = boost::json;

const json::value* find_member(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

json::value* find_member(json::object& object, std::string_view name) {
  json::value* const value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string_view text_member(const json::object& object, std::string_view name) {
  const json::value* const value = find_member(object, name);
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

int64_t count_member(const json::object& object, std::string_view name) {
  const json::value* const value = find_member(object, name);
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

ApiCheck read_flag(const json::object& object, std::string_view name, bool& out,
                   std::string_view where) {
  const json::value* const value = find_member(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return wrong_value(where.empty() ? name : where, "true or false", *value);
  out = value->get_bool();
  return std::nullopt;
}

ApiCheck read_text(const json::object& object, std::string_view name, std::string& out) {
  const json::value* const value = find_member(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong_value(name, "a string", *value);
  out = value->get_string();
  return std::nullopt;
}

ApiError wrong_value(std::string_view where, std::string_view what, const json::value& got) {
  return field_error(where, fmt::format("expected {}, got {}", what, describe(got)));
}

}  // namespace quire::server
