// ToolTypes holds the types that a request's tools declare for their parameters. They are needed by
// dialects whose values are not JSON.
#pragma once

#include <boost/json/array.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace quire {

// JSON types as bits.
enum ValueTypes : uint8_t {
  kTypeUndeclared = 0,
  kTypeString = 1,
  kTypeInteger = 2,
  kTypeNumber = 4,
  kTypeBoolean = 8,
  kTypeNull = 16,
  kTypeObject = 32,
  kTypeArray = 64,
};

// It does not change after it is made, so any thread may use it.
class ToolTypes {
 public:
  ToolTypes() = default;
  // Reads tools of the form {"type": "function", "function": {"name", "parameters"}}. Malformed
  // ones are skipped.
  explicit ToolTypes(const boost::json::array& tools);

  bool has_tool(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  bool empty() const { return tools_.empty(); }
  // Returns the types that the parameter may have, as bits of ValueTypes. It follows `type`, `enum`
  // and `const` through anyOf, oneOf, allOf and local references. kTypeUndeclared: the schema
  // declares no type.
  uint8_t types(std::string_view tool, std::string_view parameter) const;

 private:
  std::map<std::string, std::map<std::string, uint8_t, std::less<>>, std::less<>> tools_;
};

// Returns the text of a value as JSON of a type that the schema allows: a string if the schema says
// so, or else the JSON value or the Python literal that the text spells, or else a string.
// `undeclared_is_json` says whether a value without a declared type is tried as JSON.
std::string value_as_json(std::string_view text, uint8_t types, bool undeclared_is_json);

}  // namespace quire
