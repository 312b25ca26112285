#include "server/anthropic/messages_request.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using F = RequestFields;
using Value = json::value;

constexpr size_t kMaxStopSequences = 64;
constexpr size_t kMaxStopBytes = 4096;
constexpr double kMaxInt32 = 2147483647.0;
constexpr int64_t kMaxThinkingBudget = 2147483647;

// Reads a string or a list of text blocks, which goes before the conversation.
ApiCheck set_system(F& f, Value& value) {
  if (!value.is_string() && !value.is_array()) {
    return wrong_value("system", "a string or a list of text blocks", value);
  }
  if (value.is_array()) {
    for (size_t i = 0; i < value.get_array().size(); ++i) {
      Value& block = value.get_array()[i];
      const Value* const text =
          block.is_object() ? find_member(block.get_object(), "text") : nullptr;
      if (text == nullptr || !text->is_string() ||
          text_member(block.get_object(), "type") != "text") {
        return wrong_value(fmt::format("system.{}", i), R"({"type": "text", "text": ...})", block);
      }
    }
  }
  f.messages.insert(f.messages.begin(),
                    json::object{{"role", "system"}, {"content", std::move(value)}});
  return std::nullopt;
}

ApiCheck set_stop_sequences(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("stop_sequences", "a list of strings", value);
  if (value.get_array().size() > kMaxStopSequences) {
    return field_error("stop_sequences", fmt::format("expected at most {} strings, got {}",
                                                     kMaxStopSequences, value.get_array().size()));
  }
  for (size_t i = 0; i < value.get_array().size(); ++i) {
    const Value& text = value.get_array()[i];
    const std::string where = fmt::format("stop_sequences.{}", i);
    if (!text.is_string()) return wrong_value(where, "a string", text);
    const size_t size = text.get_string().size();
    if (size == 0 || size > kMaxStopBytes) {
      return field_error(where, fmt::format("expected 1 to {} bytes, got {}", kMaxStopBytes, size));
    }
    f.stop.emplace_back(text.get_string());
  }
  return std::nullopt;
}

ApiResult<json::object> read_tool(Value& tool, const std::string& where) {
  if (!tool.is_object()) return wrong_value(where, "an object", tool);
  json::object& object = tool.get_object();
  if (const Value* const type = find_member(object, "type"); type != nullptr && *type != "custom") {
    return wrong_value(where + ".type", "\"custom\" (this server runs no tools of its own)", *type);
  }
  if (text_member(object, "name").empty()) {
    const Value* const name = find_member(object, "name");
    return wrong_value(where + ".name", "a name", name != nullptr ? *name : Value());
  }
  Value* const schema = find_member(object, "input_schema");
  if (schema == nullptr || !schema->is_object()) {
    return wrong_value(where + ".input_schema", "a JSON Schema",
                       schema != nullptr ? *schema : Value());
  }
  if (!schema->get_object().contains("type")) schema->get_object()["type"] = "object";
  json::object function{{"name", object.at("name")}};
  if (Value* const text = find_member(object, "description")) {
    if (!text->is_string()) return wrong_value(where + ".description", "a string", *text);
    function["description"] = std::move(*text);
  }
  function["parameters"] = std::move(*schema);
  if (Value* const strict = find_member(object, "strict")) {
    if (!strict->is_bool()) return wrong_value(where + ".strict", "true or false", *strict);
    function["strict"] = *strict;
  }
  return json::object{{"type", "function"}, {"function", std::move(function)}};
}

ApiCheck set_tools(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("tools", "a list of tools", value);
  for (size_t i = 0; i < value.get_array().size(); ++i) {
    ApiResult<json::object> tool = read_tool(value.get_array()[i], fmt::format("tools.{}", i));
    if (!tool.ok()) return tool.error();
    f.tools.push_back(std::move(tool).value());
  }
  return std::nullopt;
}

ApiCheck set_tool_choice(F& f, Value& value) {
  const std::string_view type =
      value.is_object() ? text_member(value.get_object(), "type") : std::string_view();
  if (type == "auto") {
    f.tool_choice = ToolChoice::kAuto;
  } else if (type == "any") {
    f.tool_choice = ToolChoice::kRequired;
  } else if (type == "none") {
    f.tool_choice = ToolChoice::kNone;
  } else if (type == "tool" && !text_member(value.get_object(), "name").empty()) {
    f.tool_choice = ToolChoice::kNamed;
    f.tool_choice_name = text_member(value.get_object(), "name");
  } else {
    return wrong_value("tool_choice",
                       R"({"type": "auto"}, "any", "none", or {"type": "tool", "name": ...})",
                       value);
  }
  if (const Value* const one = find_member(value.get_object(), "disable_parallel_tool_use")) {
    if (!one->is_bool()) {
      return wrong_value("tool_choice.disable_parallel_tool_use", "true or false", *one);
    }
    f.parallel_tool_calls = !one->get_bool();
  }
  return std::nullopt;
}

ApiCheck set_thinking(F& f, Value& value) {
  const std::string_view type =
      value.is_object() ? text_member(value.get_object(), "type") : std::string_view();
  const bool thinks = type == "enabled" || type == "adaptive" || type == "between_tools";
  if (!thinks && type != "disabled") {
    return wrong_value("thinking",
                       R"({"type": "enabled", "budget_tokens": ...}, "adaptive" or )"
                       R"("disabled")",
                       value);
  }
  json::object& object = value.get_object();
  // Values that the client gives the template itself take precedence.
  if (!f.chat_template_kwargs.contains("enable_thinking")) {
    f.chat_template_kwargs["enable_thinking"] = thinks;
  }
  if (text_member(object, "display") == "omitted") f.include_reasoning = false;
  if (type != "enabled") return std::nullopt;
  const Value* const budget = find_member(object, "budget_tokens");
  if (budget == nullptr || !budget->is_int64() || budget->get_int64() < 1 ||
      budget->get_int64() > kMaxThinkingBudget) {
    return wrong_value("thinking.budget_tokens", "an integer >= 1",
                       budget != nullptr ? *budget : Value());
  }
  f.thinking_token_budget = budget->get_int64();
  return std::nullopt;
}

// Reads {"type": "json_schema", "schema": …}.
ApiCheck read_format(F& f, Value& format, const std::string& where) {
  Value* const schema = format.is_object() ? find_member(format.get_object(), "schema") : nullptr;
  if (schema == nullptr || !schema->is_object() ||
      text_member(format.get_object(), "type") != "json_schema") {
    return wrong_value(where, R"({"type": "json_schema", "schema": ...})", format);
  }
  f.response_format = StructuredOutputs{.kind = StructuredOutputKind::kJson,
                                        .text = json::serialize(*schema),
                                        .field = where + ".schema"};
  return std::nullopt;
}

ApiCheck set_output_config(F& f, Value& value) {
  if (!value.is_object()) return wrong_value("output_config", "an object", value);
  if (Value* const effort = find_member(value.get_object(), "effort")) {
    const FieldSetter set =
        std::get<FieldSetter>(field_of("reasoning_effort", Endpoint::kChat).target);
    if (set(f, *effort)) {
      return wrong_value("output_config.effort", "one of low, medium, high, xhigh, max", *effort);
    }
  }
  Value* const format = find_member(value.get_object(), "format");
  return format == nullptr ? std::nullopt : read_format(f, *format, "output_config.format");
}

ApiCheck set_output_format(F& f, Value& value) { return read_format(f, value, "output_format"); }

constexpr std::string_view kAny = "{}";
constexpr std::string_view kString = R"({"type":"string"})";
constexpr std::string_view kObject = R"({"type":"object"})";
constexpr auto kNone = std::nullopt;

constexpr Field no_effect(std::string_view name, std::string_view schema, std::string_view help) {
  return {name,  Field::kChatOnly,       std::monostate{}, schema, "null", help, kNone, kNone,
          false, FieldSupport::kNoEffect};
}
constexpr Field unsupported(std::string_view name, std::string_view schema, std::string_view help) {
  return {name,  Field::kChatOnly,          std::monostate{}, schema, "null", help, kNone, kNone,
          false, FieldSupport::kUnsupported};
}

const Field kFields[] = {
    {"max_tokens", Field::kChatOnly, &F::max_tokens, "", "", "Most tokens to generate.", 1,
     kMaxInt32},
    {"messages", Field::kChatOnly, &read_messages,
     R"({"type":"array","minItems":1,"items":{"type":"object","required":["role","content"],"properties":{"role":{"type":"string","enum":["user","assistant","system"]},)"
     R"("content":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type"],"properties":{"type":{"type":"string","enum":["text","thinking","redacted_thinking","tool_use","tool_result"]}}}}]}}}})",
     "", "The conversation, oldest message first; a last one of the assistant is gone on with."},
    {"system", Field::kChatOnly, &set_system,
     R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object"}}]})", "null",
     "What goes before the conversation."},
    {"stop_sequences", Field::kChatOnly, &set_stop_sequences,
     R"({"type":"array","maxItems":64,"items":{"type":"string","minLength":1}})", "[]",
     "Ends the text before the first of these."},
    {"tools", Field::kChatOnly, &set_tools,
     R"({"type":"array","items":{"type":"object","required":["name","input_schema"],"properties":{"name":{"type":"string"},"description":{"type":"string"},"input_schema":{"type":"object"},"strict":{"type":"boolean"}}}})",
     "[]", "Functions shown to the model."},
    {"tool_choice", Field::kChatOnly, &set_tool_choice,
     R"({"type":"object","required":["type"],"properties":{"type":{"type":"string","enum":["auto","any","tool","none"]},"name":{"type":"string"},"disable_parallel_tool_use":{"type":"boolean"}}})",
     "null", "Whether calls may, must or must not come."},
    {"thinking", Field::kChatOnly, &set_thinking,
     R"({"type":"object","required":["type"],"properties":{"type":{"type":"string","enum":["enabled","adaptive","between_tools","disabled"]},"budget_tokens":{"type":"integer","minimum":1},"display":{"type":["string","null"],"enum":["summarized","omitted",null]}}})",
     "null", "Whether the model reasons, and how many tokens at most."},
    {"output_config", Field::kChatOnly, &set_output_config,
     R"({"type":"object","properties":{"effort":{"type":["string","null"]},"format":{"type":["object","null"]}}})",
     "null", "How hard the model thinks, and the JSON Schema that its text follows."},
    {"output_format", Field::kChatOnly, &set_output_format, kObject, "null",
     "As output_config.format."},
    no_effect("metadata", kAny, "No effect."),
    no_effect("cache_control", kAny, "Prefixes are cached without it."),
    no_effect("service_tier", kString, "There is one tier."),
    no_effect("speed", kString, "There is one speed."),
    no_effect("inference_geo", kString, "No effect."),
    no_effect("diagnostics", kAny, "No effect."),
    no_effect("context_management", kAny, "No effect."),
    unsupported("container", kAny, "This server runs no tools of its own."),
    unsupported("mcp_servers", kAny, "This server runs no tools of its own."),
};

// These fields of a chat mean the same in the Messages API. The last ones are not in Anthropic's
// API.
constexpr std::string_view kChatFields[] = {"model",
                                            "temperature",
                                            "top_p",
                                            "top_k",
                                            "stream",
                                            "chat_template_kwargs",
                                            "cache_salt",
                                            "priority",
                                            "request_id",
                                            "seed",
                                            "min_p",
                                            "repetition_penalty",
                                            "structured_outputs"};

}  // namespace

std::span<const Field> messages_field_table() {
  static const std::vector<Field> table = with_chat_fields(kFields, kChatFields);
  return table;
}

}  // namespace quire::server
