#include "chat/tool_grammar.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/dialects/literal_grammar.h"
#include "chat/reply/tool_types.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kName = "{name}", kIndex = "{index}", kIsString = "{is_string}";
constexpr std::string_view kAnyName = "[A-Za-z0-9_.-]{1,64}";

struct Tool {
  std::string name;
  json::object parameters;  // a schema; empty: any object
};

std::string with(std::string text, std::string_view field, std::string_view value) {
  const size_t at = text.find(field);
  if (at != text.npos) text.replace(at, field.size(), value);
  return text;
}

json::object const_string(std::string_view text) {
  return {{"type", "const_string"}, {"value", text}};
}

json::object regex(std::string_view pattern) { return {{"type", "regex"}, {"pattern", pattern}}; }

json::object sequence(json::array elements) {
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

json::object tag(std::string_view begin, json::object content, std::string_view end) {
  return {{"type", "tag"}, {"begin", begin}, {"content", std::move(content)}, {"end", end}};
}

json::object json_schema(json::object schema) {
  if (schema.empty()) schema = {{"type", "object"}};
  return {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

Result<Tool> read_tool(const json::value& value) {
  const auto* const object = value.if_object();
  const auto* const function = object != nullptr ? object->if_contains("function") : nullptr;
  const auto* const fields = function != nullptr ? function->if_object() : nullptr;
  const auto* const name = fields != nullptr ? fields->if_contains("name") : nullptr;
  if (name == nullptr || !name->is_string() || !is_name(name->get_string())) {
    return invalid_argument("tools: expected a function's name of 1 to 64 of A-Z a-z 0-9 _ . -");
  }
  Tool tool{.name = std::string(name->get_string())};
  const auto* const strict = fields->if_contains("strict");
  const bool is_loose = strict != nullptr && strict->is_bool() && !strict->get_bool();
  const auto* const parameters = fields->if_contains("parameters");
  if (is_loose || parameters == nullptr || parameters->is_null()) return tool;
  if (!parameters->is_object()) {
    return invalid_argument("tools: expected the parameters of {} as a JSON Schema object",
                            tool.name);
  }
  tool.parameters = parameters->get_object();
  return tool;
}

// Returns the properties of a schema, each with the definitions that its references need.
Parameters parameters_of(const Tool& tool) {
  const auto* const properties = tool.parameters.if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return {};
  std::vector<Parameter> out;
  const auto* const required = tool.parameters.if_contains("required");
  const ToolTypes types(
      json::array{{{"function", {{"name", tool.name}, {"parameters", tool.parameters}}}}});
  for (const auto& [key, value] : properties->get_object()) {
    Parameter parameter{.name = std::string(key), .types = types.types(tool.name, key)};
    if (value.is_object()) parameter.schema = value.get_object();
    for (const char* const definitions : {"$defs", "definitions"}) {
      const auto* const held = tool.parameters.if_contains(definitions);
      if (held != nullptr) parameter.schema[definitions] = *held;
    }
    parameter.is_required =
        required != nullptr && required->is_array() &&
        std::any_of(required->get_array().begin(), required->get_array().end(),
                    [&](const json::value& name) {
                      return name.is_string() &&
                             std::string_view(name.get_string()) == parameter.name;
                    });
    out.push_back(std::move(parameter));
  }
  return out;
}

// Returns the format of the text between the tags of a parameter: any text for a string, otherwise
// JSON.
json::object tagged_value(const TaggedCallStyle& style, const Parameter& parameter) {
  const auto* const values = parameter.schema.if_contains("enum");
  if (parameter.types == kTypeString && values != nullptr && values->is_array()) {
    json::array choices;
    for (const json::value& value : values->get_array()) {
      if (value.is_string()) choices.push_back(const_string(value.get_string()));
    }
    return {{"type", "or"}, {"elements", std::move(choices)}};
  }
  if ((parameter.types & kTypeString) == 0 && parameter.types != kTypeUndeclared) {
    return json_schema(parameter.schema);
  }
  return {
      {"type", "any_text"},
      {"excludes", json::array{json::string(style.value_end), json::string(style.parameter_begin),
                               json::string(style.call_end)}}};
}

json::object tagged_arguments(const Dialect& dialect, const TaggedCallStyle& style,
                              const Tool& tool) {
  const CallLayout& layout = dialect.layout;
  const Parameters parameters = parameters_of(tool);
  json::array elements;
  for (const Parameter& parameter : parameters.value_or(std::vector<Parameter>())) {
    const json::object value = tagged_value(style, parameter);
    const bool is_text = value.at("type") != "json_schema";
    const std::string begin = with(with(layout.parameter_begin, kName, parameter.name), kIsString,
                                   is_text ? "true" : "false");
    json::object part = tag(begin, value, layout.parameter_end);
    if (!parameter.is_required) part = {{"type", "optional"}, {"content", std::move(part)}};
    elements.push_back(std::move(part));
  }
  if (!elements.empty()) return sequence(std::move(elements));
  if (parameters) return const_string("");
  // No parameters are declared, so any are allowed.
  const std::string begin = with(layout.parameter_begin, kIsString, "true");
  const size_t name = begin.find(kName);
  json::object any = sequence({const_string(begin.substr(0, name)), regex(kAnyName),
                               tag(begin.substr(name + kName.size()),
                                   tagged_value(style, Parameter{}), layout.parameter_end)});
  return {{"type", "star"}, {"content", std::move(any)}};
}

Result<json::object> arguments_of(const Dialect& dialect, const Tool& tool) {
  if (const auto* const style = std::get_if<TaggedCallStyle>(&dialect.style)) {
    return tagged_arguments(dialect, *style, tool);
  }
  if (std::holds_alternative<PythonCallStyle>(dialect.style)) {
    QUIRE_ASSIGN_OR_RETURN(std::string grammar, python_arguments_grammar(parameters_of(tool)));
    return json::object{{"type", "grammar"}, {"grammar", std::move(grammar)}};
  }
  if (const auto* const style = std::get_if<GemmaCallStyle>(&dialect.style)) {
    QUIRE_ASSIGN_OR_RETURN(std::string grammar,
                           gemma_arguments_grammar(*style, parameters_of(tool)));
    return json::object{{"type", "grammar"}, {"grammar", std::move(grammar)}};
  }
  return json_schema(tool.parameters);
}

Result<json::object> call_tag(const Dialect& dialect, const Tool& tool) {
  const std::string begin = with(dialect.layout.call_begin, kName, tool.name);
  QUIRE_ASSIGN_OR_RETURN(json::object arguments, arguments_of(dialect, tool));
  const size_t index = begin.find(kIndex);
  if (index == begin.npos) return tag(begin, std::move(arguments), dialect.layout.call_end);
  return tag(begin.substr(0, index),
             sequence({regex("[0-9]{1,4}"), const_string(begin.substr(index + kIndex.size())),
                       std::move(arguments)}),
             dialect.layout.call_end);
}

// Returns the part of the mark before calls that does not name the function.
std::string trigger_of(const Dialect& dialect) {
  const std::string begin = dialect.layout.begin + dialect.layout.call_begin;
  for (const std::string& opening : dialect.openings) {
    if (begin.starts_with(opening)) return opening;
  }
  return begin.substr(0, begin.find(kName));
}

json::object all_calls(const Dialect& dialect, json::array tags, bool parallel) {
  const CallLayout& layout = dialect.layout;
  json::object calls{{"type", "tags_with_separator"},
                     {"tags", std::move(tags)},
                     {"separator", layout.separator},
                     {"at_least_one", true},
                     {"stop_after_first", !parallel}};
  if (layout.begin.empty() && layout.end.empty()) return calls;
  return tag(layout.begin, std::move(calls), layout.end);
}

// Returns the format of free text in which calls follow their mark.
json::object text_with_calls(const Dialect& dialect, json::array tags, bool parallel) {
  if (!dialect.begins_reply.empty()) {
    const std::string text = "([^\\s\\" + dialect.begins_reply.substr(0, 1) + "][\\s\\S]*)?";
    return {{"type", "or"},
            {"elements", json::array{all_calls(dialect, std::move(tags), parallel), regex(text)}}};
  }
  if (!dialect.layout.begin.empty()) tags = {all_calls(dialect, std::move(tags), parallel)};
  return {{"type", "triggered_tags"},
          {"triggers", json::array{json::string(trigger_of(dialect))}},
          {"tags", std::move(tags)},
          {"at_least_one", false},
          {"stop_after_first", !parallel}};
}

}  // namespace

Result<json::object> tool_grammar(const Dialect& dialect, const json::array& tools,
                                  const ToolGrammarOptions& options) {
  if (dialect.layout.call_begin.empty()) {
    return invalid_argument("the dialect {} has no grammar of tool calls", dialect.name);
  }
  if (tools.empty()) return invalid_argument("tools: expected at least one tool");
  json::array tags;
  for (const json::value& value : tools) {
    QUIRE_ASSIGN_OR_RETURN(const Tool tool, read_tool(value));
    QUIRE_ASSIGN_OR_RETURN(json::object tag, call_tag(dialect, tool));
    tags.push_back(std::move(tag));
  }
  // gpt-oss writes one call per turn.
  const bool is_harmony = std::holds_alternative<HarmonyStyle>(dialect.style);
  const bool parallel = options.parallel_tool_calls && !is_harmony;
  json::object format = options.at_least_one ? all_calls(dialect, std::move(tags), parallel)
                                             : text_with_calls(dialect, std::move(tags), parallel);
  if (is_harmony && options.at_least_one) {
    json::object analysis = tag("<|channel|>analysis<|message|>",
                                {{"type", "any_text"}, {"excludes", json::array{"<|end|>"}}},
                                "<|end|><|start|>assistant");
    format =
        sequence({{{"type", "optional"}, {"content", std::move(analysis)}}, std::move(format)});
  }
  return json::object{{"type", "structural_tag"}, {"format", std::move(format)}};
}

}  // namespace quire
