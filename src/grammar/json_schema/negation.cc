// The complement of a schema is that one of its keywords does not hold.
#include <algorithm>

#include "grammar/json_schema/keywords.h"
#include "grammar/json_schema/normalizer.h"

namespace quire::grammar {
namespace {

// Constraining keywords whose complement is not supported.
constexpr std::string_view kNoComplement[] = {"additionalItems",
                                              "additionalProperties",
                                              "allOf",
                                              "anyOf",
                                              "contains",
                                              "dependencies",
                                              "dependentRequired",
                                              "dependentSchemas",
                                              "exclusiveMaximum",
                                              "exclusiveMinimum",
                                              "if",
                                              "items",
                                              "maxContains",
                                              "maximum",
                                              "minContains",
                                              "minimum",
                                              "multipleOf",
                                              "oneOf",
                                              "patternProperties",
                                              "prefixItems",
                                              "properties",
                                              "propertyNames",
                                              "required",
                                              "unevaluatedItems",
                                              "unevaluatedProperties",
                                              "uniqueItems"};
constexpr std::string_view kTakesSchema[] = {
    "additionalItems", "additionalProperties", "items",
    "propertyNames",   "unevaluatedItems",     "unevaluatedProperties"};

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

struct CountKeyword {
  std::string_view keyword;
  uint8_t type;
  CountRange Record::*range;
  bool is_min;
};
constexpr CountKeyword kCounts[] = {{"minLength", kStringType, &Record::length, true},
                                    {"maxLength", kStringType, &Record::length, false},
                                    {"minItems", kArrayType, &Record::num_items, true},
                                    {"maxItems", kArrayType, &Record::num_items, false},
                                    {"minProperties", kObjectType, &Record::num_members, true},
                                    {"maxProperties", kObjectType, &Record::num_members, false}};

}  // namespace

Result<Normalizer::Choice> Normalizer::negation(const json::object& schema) {
  Choice out;
  for (const std::string_view keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    if (!schema.contains(keyword)) continue;
    QUIRE_ASSIGN_OR_RETURN(const json::value* target, document_.resolve(schema, keyword));
    out.push_back({{{target, true}}, {}});
    if (keyword == "$ref" && document_.ref_hides_siblings()) return out;
  }
  for (const auto& [keyword, value] : schema) {
    const auto is_done = negate_keyword(keyword, value, schema, out);
    const std::string context = "the complement of " + std::string(keyword);
    if (!is_done.ok()) return is_done.status().with_context(context);
    if (!*is_done) return invalid_argument("{}: not supported", context);
  }
  return out;
}

// Returns false if the keyword is a constraint whose complement is not supported.
Result<bool> Normalizer::negate_keyword(std::string_view keyword, const json::value& value,
                                        const json::object& schema, Choice& out) {
  for (const CountKeyword& count : kCounts) {
    if (keyword != count.keyword) continue;
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bound, count_of(value, keyword));
    if (count.is_min && bound == 0) return true;
    out.push_back({{}, [count, bound](Record& record) {
                     record.types &= count.type;
                     CountRange& range = record.*count.range;
                     if (count.is_min) {
                       range.meet(0, bound - 1);
                     } else {
                       range.meet(bound + 1, kUnbounded);
                     }
                     if (range.empty()) record.types = 0;
                   }});
    return true;
  }
  QUIRE_ASSIGN_OR_RETURN(const bool is_value, negate_value(keyword, value, schema, out));
  if (is_value) return true;
  QUIRE_ASSIGN_OR_RETURN(const bool is_nested, negate_nested(keyword, value, out));
  if (is_nested) return true;
  if (contains(kTakesSchema, keyword) && is_trivial(value)) return true;
  if (keyword == "uniqueItems" && value.is_bool() && !value.get_bool()) return true;
  return !contains(kNoComplement, keyword);
}

Result<bool> Normalizer::negate_value(std::string_view keyword, const json::value& value,
                                      const json::object& schema, Choice& out) {
  if (keyword == "type") {
    QUIRE_ASSIGN_OR_RETURN(const Types types, types_of(value));
    if (types.is_integer) return invalid_argument("numbers that are no integers have no form here");
    out.push_back(
        {{}, [bits = types.bits](Record& record) { record.types &= static_cast<uint8_t>(~bits); }});
    return true;
  }
  if (keyword == "const" || keyword == "enum") {
    std::vector<const json::value*> values;
    if (keyword == "const") values.push_back(&value);
    if (keyword == "enum" && value.is_array()) {
      for (const json::value& item : value.get_array()) values.push_back(&item);
    }
    out.push_back({{}, [values](Record& record) {
                     record.excluded.insert(record.excluded.end(), values.begin(), values.end());
                   }});
    return true;
  }
  if ((keyword == "pattern" || keyword == "format") && value.is_string()) {
    std::optional<ExprId> expr = format(value.get_string());
    if (keyword == "pattern") {
      QUIRE_ASSIGN_OR_RETURN(expr, pattern(value.get_string()));
    }
    if (!expr) return true;  // a format that is an annotation
    out.push_back({{}, [other = store_.complement(*expr)](Record& record) {
                     record.types &= kStringType;
                     record.patterns.push_back(other);
                   }});
    return true;
  }
  if ((keyword == "minimum" || keyword == "maximum") && value.is_number()) {
    const bool is_min = keyword == "minimum";
    const json::value* flag = schema.if_contains(is_min ? "exclusiveMinimum" : "exclusiveMaximum");
    const auto number = decimal_of(value);
    if ((flag != nullptr && flag->is_bool()) || !number) return false;
    out.push_back({{}, [is_min, bound = NumberBound{*number, true}](Record& record) {
                     record.types &= kNumberType;
                     meet_bound(is_min ? record.number.upper : record.number.lower, bound, !is_min);
                   }});
    return true;
  }
  return false;
}

Result<bool> Normalizer::negate_nested(std::string_view keyword, const json::value& value,
                                       Choice& out) {
  if (keyword == "required" && value.is_array()) {
    for (const json::value& name : value.get_array()) {
      if (!name.is_string()) return invalid_argument("expected strings");
      out.push_back({{}, [text = std::string(name.get_string())](Record& record) {
                       record.types &= kObjectType;
                       forbid_member(record, text);
                     }});
    }
    return true;
  }
  if (keyword == "properties" && value.is_object()) {
    for (const auto& [key, child] : value.get_object()) {
      if (is_trivial(child)) continue;
      const SchemaRef other{&child, true};
      out.push_back({{}, [name = std::string(key), other](Record& record) {
                       record.types &= kObjectType;
                       require_member(record, name);
                       MemberRules rules;
                       rules.properties.emplace_back(name, other);
                       record.members.push_back(std::move(rules));
                     }});
    }
    return true;
  }
  if (keyword == "allOf" && value.is_array()) {
    for (const json::value& part : value.get_array()) out.push_back({{{&part, true}}, {}});
    return true;
  }
  if (keyword == "anyOf" && value.is_array()) {
    Branch all;
    for (const json::value& part : value.get_array()) all.add.push_back({&part, true});
    out.push_back(std::move(all));
    return true;
  }
  if (keyword == "not") {
    out.push_back({{{&value}}, {}});
    return true;
  }
  return false;
}

}  // namespace quire::grammar
