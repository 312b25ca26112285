#include "server/openai/structured_fields.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using Rule = std::optional<StructuredOutputs>;

constexpr size_t kMaxNameBytes = 64;
constexpr std::string_view kFormat = "response_format";
constexpr std::string_view kOutputs = "structured_outputs";

std::string path_of(std::string_view field, std::string_view name) {
  return fmt::format("{}.{}", field, name);
}

bool is_schema_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

ApiResult<Rule> read_json_schema(const json::object& format) {
  const std::string field = path_of(kFormat, "json_schema");
  const json::value* value = find_member(format, "json_schema");
  if (value == nullptr || !value->is_object()) {
    return field_error(field, "expected an object with \"name\" and \"schema\"");
  }
  const json::object& object = value->get_object();
  const json::value* name = find_member(object, "name");
  if (name == nullptr || !name->is_string() || !is_schema_name(name->get_string())) {
    return field_error(
        path_of(field, "name"),
        fmt::format("expected 1 to {} characters of a-z A-Z 0-9 _ -", kMaxNameBytes));
  }
  const json::value* strict = find_member(object, "strict");
  if (strict != nullptr && !strict->is_bool()) {
    return wrong_value(path_of(field, "strict"), "true or false", *strict);
  }
  const json::value* schema = find_member(object, "schema");
  StructuredOutputs rule{
      .kind = StructuredOutputKind::kJson, .text = "{}", .field = path_of(field, "schema")};
  if (schema != nullptr) {
    if (!schema->is_object() && !schema->is_bool()) {
      return wrong_value(rule.field, "a JSON Schema", *schema);
    }
    rule.text = json::serialize(*schema);
  }
  return Rule(std::move(rule));
}

struct RuleName {
  std::string_view name;
  StructuredOutputKind kind;
};
constexpr RuleName kRuleNames[] = {{"json", StructuredOutputKind::kJson},
                                   {"regex", StructuredOutputKind::kRegex},
                                   {"choice", StructuredOutputKind::kChoice},
                                   {"grammar", StructuredOutputKind::kGrammar},
                                   {"json_object", StructuredOutputKind::kJsonObject},
                                   {"structural_tag", StructuredOutputKind::kStructuralTag}};

ApiCheck read_choices(const json::value& value, StructuredOutputs& rule) {
  const char* const what = "a list of at least one string";
  if (!value.is_array() || value.get_array().empty()) return wrong_value(rule.field, what, value);
  for (const json::value& choice : value.get_array()) {
    if (!choice.is_string()) return wrong_value(rule.field, "strings", choice);
    rule.choices.emplace_back(choice.get_string());
  }
  return std::nullopt;
}

ApiCheck read_rule(const json::value& value, StructuredOutputs& rule) {
  switch (rule.kind) {
    case StructuredOutputKind::kChoice:
      return read_choices(value, rule);
    case StructuredOutputKind::kJsonObject:
      if (!value.is_bool() || !value.get_bool()) return wrong_value(rule.field, "true", value);
      return std::nullopt;
    case StructuredOutputKind::kJson:
    case StructuredOutputKind::kStructuralTag:
      if (value.is_object()) {
        rule.text = json::serialize(value);
        return std::nullopt;
      }
      break;
    case StructuredOutputKind::kRegex:
    case StructuredOutputKind::kGrammar:
      break;
  }
  if (value.is_string()) rule.text = std::string(value.get_string());
  if (rule.text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return wrong_value(rule.field, "a string that is not blank", value);
  }
  return std::nullopt;
}

ApiCheck read_options(const json::object& object, StructuredOutputs& rule) {
  const std::pair<std::string_view, bool*> flags[] = {
      {"disable_any_whitespace", &rule.disable_any_whitespace},
      {"disable_additional_properties", &rule.disable_additional_properties},
      {"any_order", &rule.any_order}};
  for (const auto& [name, flag] : flags) {
    if (ApiCheck e = read_flag(object, name, *flag, path_of(kOutputs, name))) return e;
  }
  if (const json::value* pattern = find_member(object, "whitespace_pattern")) {
    if (!pattern->is_string()) {
      return wrong_value(path_of(kOutputs, "whitespace_pattern"), "a string", *pattern);
    }
    rule.whitespace_pattern = std::string(pattern->get_string());
  }
  return std::nullopt;
}

// `disable_fallback` is about backends, of which Quire has one.
constexpr std::string_view kOptions[] = {"disable_any_whitespace", "disable_additional_properties",
                                         "whitespace_pattern", "any_order", "disable_fallback"};

ApiCheck check_field_names(const json::object& object) {
  for (const auto& member : object) {
    const std::string_view name(member.key().data(), member.key().size());
    const bool is_rule = std::any_of(std::begin(kRuleNames), std::end(kRuleNames),
                                     [&](const RuleName& rule) { return rule.name == name; });
    const bool is_option =
        std::find(std::begin(kOptions), std::end(kOptions), name) != std::end(kOptions);
    if (!is_rule && !is_option) return field_error(kOutputs, "unknown member " + in_quotes(name));
  }
  return std::nullopt;
}

}  // namespace

ApiResult<Rule> read_response_format(const json::value& value) {
  const json::value* type = value.is_object() ? find_member(value.get_object(), "type") : nullptr;
  if (type == nullptr || !type->is_string()) {
    return wrong_value(kFormat, "an object with a \"type\"", value);
  }
  const std::string_view name(type->get_string().data(), type->get_string().size());
  if (name == "text") return Rule();
  if (name == "json_object") {
    return Rule(StructuredOutputs{.kind = StructuredOutputKind::kJsonObject,
                                  .field = std::string(kFormat)});
  }
  if (name == "json_schema") return read_json_schema(value.get_object());
  if (name == "structural_tag") {
    return Rule(StructuredOutputs{.kind = StructuredOutputKind::kStructuralTag,
                                  .text = json::serialize(value),
                                  .field = std::string(kFormat)});
  }
  return field_error("response_format.type",
                     "expected \"text\", \"json_object\", \"json_schema\" or \"structural_tag\"");
}

ApiResult<Rule> read_structured_outputs(const json::value& value) {
  if (!value.is_object()) return wrong_value(kOutputs, "an object", value);
  const json::object& object = value.get_object();
  if (ApiCheck error = check_field_names(object)) return *error;
  Rule rule;
  for (const RuleName& known : kRuleNames) {
    const json::value* member = find_member(object, known.name);
    const bool is_off = member == nullptr || (member->is_bool() && !member->get_bool() &&
                                              known.kind == StructuredOutputKind::kJsonObject);
    if (is_off) continue;
    if (rule) {
      return field_error(kOutputs, fmt::format("expected one rule, got {} and {}",
                                               in_quotes(rule->field), in_quotes(known.name)));
    }
    rule = StructuredOutputs{.kind = known.kind, .field = path_of(kOutputs, known.name)};
    if (ApiCheck error = read_rule(*member, *rule)) return *error;
  }
  if (!rule) {
    return field_error(kOutputs,
                       "expected one of json, regex, choice, grammar, json_object, structural_tag");
  }
  if (ApiCheck error = read_options(object, *rule)) return *error;
  return rule;
}

}  // namespace quire::server
