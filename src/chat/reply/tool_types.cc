#include "chat/reply/tool_types.h"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

#include "chat/reply/json_scanner.h"
#include "chat/reply/python_literal.h"
#include "chat/reply/reply_input.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr int kMaxSchemaDepth = 8;

uint8_t type_of_name(std::string_view name) {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {
      {"string", kTypeString},   {"str", kTypeString},    {"integer", kTypeInteger},
      {"int", kTypeInteger},     {"number", kTypeNumber}, {"float", kTypeNumber},
      {"boolean", kTypeBoolean}, {"bool", kTypeBoolean},  {"null", kTypeNull},
      {"object", kTypeObject},   {"dict", kTypeObject},   {"array", kTypeArray},
      {"list", kTypeArray}};
  for (const auto& [known, type] : kNames) {
    if (known == name) return type;
  }
  return kTypeUndeclared;
}

uint8_t type_of_value(const json::value& value) {
  switch (value.kind()) {
    case json::kind::string:
      return kTypeString;
    case json::kind::bool_:
      return kTypeBoolean;
    case json::kind::null:
      return kTypeNull;
    case json::kind::object:
      return kTypeObject;
    case json::kind::array:
      return kTypeArray;
    case json::kind::double_:
      return kTypeNumber;
    default:
      return kTypeInteger;
  }
}

// Finds "#/$defs/X" within the tool's parameters.
const json::value* resolve(const json::object& root, std::string_view reference) {
  if (!reference.starts_with("#/")) return nullptr;
  const json::value* at = nullptr;
  const json::object* object = &root;
  for (size_t begin = 2; begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    if (object == nullptr) return nullptr;
    at = object->if_contains(reference.substr(begin, end - begin));
    if (at == nullptr) return nullptr;
    object = at->if_object();
    begin = end + 1;
  }
  return at;
}

uint8_t types_of(const json::object& root, const json::value& schema, int depth) {
  const json::object* const object = schema.if_object();
  if (object == nullptr || depth == kMaxSchemaDepth) return kTypeUndeclared;
  uint8_t types = kTypeUndeclared;
  if (const auto* type = object->if_contains("type")) {
    if (type->is_string()) types |= type_of_name(type->get_string());
    if (type->is_array()) {
      for (const json::value& name : type->get_array()) {
        if (name.is_string()) types |= type_of_name(name.get_string());
      }
    }
  }
  if (types != kTypeUndeclared) return types;
  if (const auto* values = object->if_contains("enum"); values && values->is_array()) {
    for (const json::value& value : values->get_array()) types |= type_of_value(value);
  }
  if (const auto* value = object->if_contains("const")) types |= type_of_value(*value);
  for (const char* const key : {"anyOf", "oneOf", "allOf"}) {
    const auto* const branches = object->if_contains(key);
    if (branches == nullptr || !branches->is_array()) continue;
    for (const json::value& branch : branches->get_array()) {
      types |= types_of(root, branch, depth + 1);
    }
  }
  if (const auto* reference = object->if_contains("$ref"); reference && reference->is_string()) {
    const json::value* const target = resolve(root, reference->get_string());
    if (target != nullptr) types |= types_of(root, *target, depth + 1);
  }
  return types;
}

// Returns the JSON that `text` spells, itself or as a Python literal.
std::optional<std::string> read_value(std::string_view text) {
  if (is_json(text)) return std::string(text);
  return python_as_json(text);
}

uint8_t type_of_json(std::string_view text) {
  switch (text[text.find_first_not_of(kBlanks)]) {
    case '"':
      return kTypeString;
    case '{':
      return kTypeObject;
    case '[':
      return kTypeArray;
    case 't':
    case 'f':
      return kTypeBoolean;
    case 'n':
      return kTypeNull;
    default:
      return text.find_first_of(".eE") == text.npos ? kTypeInteger | kTypeNumber : kTypeNumber;
  }
}

}  // namespace

ToolTypes::ToolTypes(const json::array& tools) {
  for (const json::value& tool : tools) {
    const auto* const object = tool.if_object();
    const auto* function = object != nullptr ? object->if_contains("function") : nullptr;
    if (function == nullptr || !function->is_object()) continue;
    const auto* const name = function->get_object().if_contains("name");
    if (name == nullptr || !name->is_string()) continue;
    auto& parameters = tools_[std::string(name->get_string())];
    const auto* const schema = function->get_object().if_contains("parameters");
    if (schema == nullptr || !schema->is_object()) continue;
    const auto* const properties = schema->get_object().if_contains("properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, value] : properties->get_object()) {
      parameters[std::string(key)] = types_of(schema->get_object(), value, 0);
    }
  }
}

uint8_t ToolTypes::types(std::string_view tool, std::string_view parameter) const {
  const auto it = tools_.find(tool);
  if (it == tools_.end()) return kTypeUndeclared;
  const auto found = it->second.find(parameter);
  return found == it->second.end() ? static_cast<uint8_t>(kTypeUndeclared) : found->second;
}

std::string value_as_json(std::string_view text, uint8_t types, bool undeclared_is_json) {
  if (types == kTypeString) return json_string(text);
  if (types == kTypeUndeclared && !undeclared_is_json) return json_string(text);
  const std::optional<std::string> value = read_value(text);
  if (!value) return json_string(text);
  const uint8_t type = type_of_json(*value);
  // When a string is allowed, text that is JSON of a type that is not allowed is a string.
  const bool fits = types == kTypeUndeclared || (types & type & ~kTypeString) != 0;
  if ((types & kTypeString) != 0 && !fits) return json_string(text);
  const size_t begin = value->find_first_not_of(kBlanks);
  return value->substr(begin, value->find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace quire
