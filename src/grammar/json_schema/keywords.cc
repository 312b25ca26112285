#include "grammar/json_schema/keywords.h"

#include <algorithm>

#include "grammar/json_schema/normalizer.h"

namespace quire::grammar {
namespace {

Result<uint8_t> type_bits(std::string_view name, bool& is_integer) {
  if (name == "null") return uint8_t{kNull};
  if (name == "boolean") return uint8_t(kTrue | kFalse);
  if (name == "string") return uint8_t{kStringType};
  if (name == "array") return uint8_t{kArrayType};
  if (name == "object") return uint8_t{kObjectType};
  if (name == "any") return uint8_t{kAllTypes};  // draft 3
  is_integer = name == "integer";
  if (name == "number" || is_integer) return uint8_t{kNumberType};
  return invalid_argument("type: '{}' is not a type", name);
}

}  // namespace

Result<uint64_t> count_of(const json::value& value, std::string_view keyword) {
  const auto number = value.is_number() ? decimal_of(value) : std::nullopt;
  if (!number || number->is_negative || !number->is_integer() || number->integer.size() > 18) {
    return invalid_argument("{}: expected a count", keyword);
  }
  return std::stoull(number->integer);
}

bool is_trivial(const json::value& schema) {
  return (schema.is_bool() && schema.get_bool()) ||
         (schema.is_object() && schema.get_object().empty());
}

Result<Types> types_of(const json::value& value) {
  Types out;
  bool has_number = false, has_integer = false;
  const auto add = [&](const json::value& name) -> Status {
    if (!name.is_string()) return invalid_argument("type: expected a string or a list of strings");
    bool is_integer = false;
    QUIRE_ASSIGN_OR_RETURN(const uint8_t bits, type_bits(name.get_string(), is_integer));
    out.bits |= bits;
    has_integer |= is_integer;
    has_number |= (bits & kNumberType) != 0 && !is_integer;
    return {};
  };
  if (const json::array* list = value.if_array()) {
    for (const json::value& name : *list) QUIRE_RETURN_IF_ERROR(add(name));
  } else {
    QUIRE_RETURN_IF_ERROR(add(value));
  }
  out.is_integer = has_integer && !has_number;
  return out;
}

void meet_bound(std::optional<NumberBound>& bound, const NumberBound& other, bool is_lower) {
  if (bound) {
    const int order = compare(other.value, bound->value) * (is_lower ? 1 : -1);
    if (order < 0 || (order == 0 && !other.is_exclusive)) return;
  }
  bound = other;
}

void require_member(Record& record, const std::string& name) {
  if (std::find(record.required.begin(), record.required.end(), name) == record.required.end()) {
    record.required.push_back(name);
  }
}
void forbid_member(Record& record, const std::string& name) {
  MemberRules rules;
  rules.properties.emplace_back(name, SchemaRef{&false_schema()});
  record.members.push_back(std::move(rules));
}

}  // namespace quire::grammar
