#include "server/responses/responses_request.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/responses/response_input.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using F = RequestFields;
using Value = json::value;

constexpr double kMaxInt32 = 2147483647.0;
constexpr size_t kMaxMetadata = 16;

FieldSetter setter_of(std::string_view chat_field) {
  return std::get<FieldSetter>(field_of(chat_field, Endpoint::kChat).target);
}

// Reads {"type": "function", "name": …, "parameters": …}. In a chat these members are one level
// deeper.
ApiCheck set_tools(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("tools", "a list of tools", value);
  for (size_t i = 0; i < value.get_array().size(); ++i) {
    Value& tool = value.get_array()[i];
    const std::string where = fmt::format("tools.{}", i);
    if (!tool.is_object()) return wrong_value(where, "a tool", tool);
    json::object& object = tool.get_object();
    if (text_member(object, "type") != "function") {
      return field_error(where + ".type",
                         fmt::format("expected \"function\" (this server runs no tools of its "
                                     "own), got {}",
                                     in_quotes(text_member(object, "type"))));
    }
    if (text_member(object, "name").empty()) {
      return field_error(where + ".name", "expected a name, got none");
    }
    json::object function;
    for (const std::string_view name : {"name", "description", "parameters", "strict"}) {
      if (Value* const member = find_member(object, name)) function[name] = std::move(*member);
    }
    f.tools.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  return std::nullopt;
}

ApiCheck set_tool_choice(F& f, Value& value) {
  if (value.is_object() && text_member(value.get_object(), "type") == "function" &&
      value.get_object().contains("name")) {
    value = json::object{{"type", "function"},
                         {"function", json::object{{"name", value.get_object().at("name")}}}};
  }
  if (!setter_of("tool_choice")(f, value)) return std::nullopt;
  return wrong_value("tool_choice",
                     R"("none", "auto", "required", {"type": "function", "name": ...} or )"
                     R"({"type": "allowed_tools", "mode": ..., "tools": [...]})",
                     value);
}

// Reads {"format": {"type": "text" | "json_object" | "json_schema", …}, "verbosity": …}.
ApiCheck set_text(F& f, Value& value) {
  if (!value.is_object()) return wrong_value("text", "an object", value);
  Value* const format = find_member(value.get_object(), "format");
  if (format == nullptr) return std::nullopt;
  const std::string_view type =
      format->is_object() ? text_member(format->get_object(), "type") : std::string_view();
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    f.response_format =
        StructuredOutputs{.kind = StructuredOutputKind::kJsonObject, .field = "text.format"};
    return std::nullopt;
  }
  if (type != "json_schema") {
    return wrong_value("text.format", R"({"type": "text", "json_object" or "json_schema"})",
                       *format);
  }
  const Value* const schema = find_member(format->get_object(), "schema");
  if (schema == nullptr || !(schema->is_object() || schema->is_bool())) {
    return wrong_value("text.format.schema", "a JSON Schema",
                       schema != nullptr ? *schema : Value());
  }
  f.response_format = StructuredOutputs{.kind = StructuredOutputKind::kJson,
                                        .text = json::serialize(*schema),
                                        .field = "text.format.schema"};
  return std::nullopt;
}

ApiCheck set_reasoning(F& f, Value& value) {
  if (!value.is_object()) return wrong_value("reasoning", "an object", value);
  Value* const effort = find_member(value.get_object(), "effort");
  if (effort == nullptr || !setter_of("reasoning_effort")(f, *effort)) return std::nullopt;
  return wrong_value("reasoning.effort", "one of none, minimal, low, medium, high, xhigh, max",
                     *effort);
}

ApiCheck set_include(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("include", "a list of strings", value);
  for (const Value& item : value.get_array()) {
    if (!item.is_string()) return wrong_value("include", "strings", item);
    if (item.get_string() == "message.output_text.logprobs") f.logprobs_wanted = true;
  }
  return std::nullopt;
}

ApiCheck set_top_logprobs(F& f, Value& value) {
  if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > 20) {
    return wrong_value("top_logprobs", "an integer in [0, 20]", value);
  }
  f.top_logprobs = value.get_int64();
  if (*f.top_logprobs > 0) f.logprobs_wanted = true;
  return std::nullopt;
}

constexpr std::string_view kAny = "{}";
constexpr std::string_view kString = R"({"type":"string"})";
constexpr std::string_view kBool = R"({"type":"boolean"})";
constexpr std::string_view kObject = R"({"type":"object"})";
constexpr auto kNone = std::nullopt;
constexpr uint8_t kH = Field::kChatOnly;
constexpr auto kNoEffect = FieldSupport::kNoEffect;
constexpr auto kUnsupported = FieldSupport::kUnsupported;

// Fields without a target are removed from the body earlier (take_response_options).
const Field kFields[] = {
    {"input", kH, std::monostate{},
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"object","properties":{"type":{"type":"string","enum":["message","function_call","function_call_output","reasoning"]}}}}]})",
     "", "A text of the user, or items."},
    {"instructions", kH, std::monostate{}, kString, "null",
     "What goes before the conversation; not kept for the next response."},
    {"previous_response_id", kH, std::monostate{}, kString, "null",
     "The response whose conversation goes on."},
    {"store", kH, std::monostate{}, kBool, "true", "Keep the response for later requests."},
    {"background", kH, std::monostate{}, kBool, "false",
     "Answer at once and go on without the client; needs store."},
    {"truncation", kH, std::monostate{}, R"({"type":"string","enum":["auto","disabled"]})",
     "\"disabled\"", "auto: the oldest of a conversation that is too long is dropped."},
    {"metadata", kH, std::monostate{}, kObject, "null", "Up to 16 pairs of texts; printed again."},
    {"max_output_tokens", kH, &F::max_tokens, "", "null", "Most tokens to generate.", 1, kMaxInt32},
    {"tools", kH, &set_tools,
     R"({"type":"array","items":{"type":"object","required":["type","name"],"properties":{"type":{"type":"string","const":"function"},"name":{"type":"string"},"description":{"type":["string","null"]},"parameters":{"type":["object","null"]},"strict":{"type":["boolean","null"]}}}})",
     "[]", "Functions shown to the model."},
    {"tool_choice", kH, &set_tool_choice,
     R"({"anyOf":[{"type":"string","enum":["none","auto","required"]},{"type":"object"}]})",
     "\"auto\"", "Whether calls may, must or must not come, and of which functions."},
    {"text", kH, &set_text, R"({"type":"object","properties":{"format":{"type":"object"}}})",
     "null", "format: text, json_object or json_schema."},
    {"reasoning", kH, &set_reasoning,
     R"({"type":"object","properties":{"effort":{"type":["string","null"]},"summary":{"type":["string","null"]}}})",
     "null",
     "effort goes to the chat template; reasoning is not summarized, its text comes whole."},
    {"include", kH, &set_include, R"({"type":"array","items":{"type":"string"}})", "null",
     "message.output_text.logprobs; others have no effect."},
    {"top_logprobs", kH, &set_top_logprobs, R"({"type":"integer","minimum":0,"maximum":20})", "0",
     "Alternatives per token."},
    {"stream_options", kH, std::monostate{}, kObject, "null", "No effect.", kNone, kNone, false,
     kNoEffect},
    {"max_tool_calls", kH, std::monostate{}, R"({"type":"integer"})", "null",
     "Of tools of the server, which has none.", kNone, kNone, false, kNoEffect},
    {"context_management", kH, std::monostate{}, kAny, "null", "No effect.", kNone, kNone, false,
     kNoEffect},
    {"prompt_cache_retention", kH, std::monostate{}, kString, "null", "No effect.", kNone, kNone,
     false, kNoEffect},
    {"prompt", kH, std::monostate{}, kObject, "null", "Prompts that a server keeps.", kNone, kNone,
     false, kUnsupported},
    {"conversation", kH, std::monostate{}, kAny, "null", "Use previous_response_id.", kNone, kNone,
     false, kUnsupported},
};

// These fields of a chat mean the same in the Responses API.
constexpr std::string_view kChatFields[] = {"model",
                                            "temperature",
                                            "top_p",
                                            "stream",
                                            "parallel_tool_calls",
                                            "user",
                                            "safety_identifier",
                                            "prompt_cache_key",
                                            "service_tier",
                                            "top_k",
                                            "min_p",
                                            "seed",
                                            "stop",
                                            "presence_penalty",
                                            "frequency_penalty",
                                            "repetition_penalty",
                                            "logit_bias",
                                            "cache_salt",
                                            "priority",
                                            "thinking_token_budget",
                                            "chat_template_kwargs",
                                            "structured_outputs",
                                            "ignore_eos"};

ApiCheck take_text(json::object& body, std::string_view name, std::optional<std::string>& out) {
  Value* const value = find_member(body, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong_value(name, "a string", *value);
  out = std::string(value->get_string());
  return std::nullopt;
}

ApiCheck take_flag(json::object& body, std::string_view name, bool& out) {
  const Value* const value = find_member(body, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return wrong_value(name, "true or false", *value);
  out = value->get_bool();
  return std::nullopt;
}

ApiCheck take_truncation(json::object& body, bool& truncates) {
  const Value* const value = find_member(body, "truncation");
  if (value == nullptr || *value == "disabled") return std::nullopt;
  if (*value != "auto") return wrong_value("truncation", R"("auto" or "disabled")", *value);
  truncates = true;
  return std::nullopt;
}

ApiCheck check_metadata(json::object& body) {
  const Value* const value = find_member(body, "metadata");
  if (value == nullptr) return std::nullopt;
  if (!value->is_object() || value->get_object().size() > kMaxMetadata) {
    return wrong_value("metadata", "an object of at most 16 pairs", *value);
  }
  for (const auto& pair : value->get_object()) {
    const size_t most_key = 64, most_value = 512;
    if (pair.key().size() > most_key || !pair.value().is_string() ||
        pair.value().get_string().size() > most_value) {
      return field_error("metadata", fmt::format("expected keys of at most {} bytes and texts of "
                                                 "at most {}",
                                                 most_key, most_value));
    }
  }
  return std::nullopt;
}

// Reads {"type": "allowed_tools", "mode": "auto" | "required", "tools": [{"type": "function",
// "name"}]}.
ApiCheck take_allowed_tools(json::object& body, ResponseOptions& options) {
  Value* const choice = find_member(body, "tool_choice");
  if (choice == nullptr || !choice->is_object() ||
      text_member(choice->get_object(), "type") != "allowed_tools") {
    return std::nullopt;
  }
  const std::string mode(text_member(choice->get_object(), "mode"));
  Value* const tools = find_member(choice->get_object(), "tools");
  if ((mode != "auto" && mode != "required") || tools == nullptr || !tools->is_array()) {
    return field_error("tool_choice",
                       R"(expected "mode": "auto" or "required", and a list of "tools")");
  }
  options.allowed_tools.emplace();
  for (Value& tool : tools->get_array()) {
    const std::string_view name =
        tool.is_object() ? text_member(tool.get_object(), "name") : std::string_view();
    if (name.empty()) return wrong_value("tool_choice.tools", "tools with a \"name\"", tool);
    options.allowed_tools->emplace_back(name);
  }
  *choice = mode;
  return std::nullopt;
}

}  // namespace

std::span<const Field> responses_field_table() {
  static const std::vector<Field> table = with_chat_fields(kFields, kChatFields);
  return table;
}

ApiResult<ResponseOptions> take_response_options(json::object& body, std::string_view response_id) {
  ResponseOptions options;
  for (const auto& [name, into] :
       {std::pair{"instructions", &options.instructions},
        std::pair{"previous_response_id", &options.previous_response_id}}) {
    if (ApiCheck error = take_text(body, name, *into)) return *error;
  }
  if (ApiCheck error = take_flag(body, "store", options.stores)) return *error;
  if (ApiCheck error = take_flag(body, "background", options.is_background)) return *error;
  if (options.is_background && !options.stores) {
    return field_error("background", "expected no \"store\": false beside it");
  }
  if (ApiCheck error = take_truncation(body, options.truncates)) return *error;
  if (ApiCheck error = check_metadata(body)) return *error;
  if (ApiCheck error = take_allowed_tools(body, options)) return *error;
  Value* const input = find_member(body, "input");
  ApiResult<json::array> items =
      read_input(input != nullptr ? std::move(*input) : Value(), response_id);
  if (!items.ok()) return items.error();
  options.input = std::move(items).value();
  body["input"] = nullptr;
  return options;
}

json::object response_of_request(const json::object& body, std::string_view id,
                                 std::string_view model, int64_t created_s) {
  const auto given = [&body](std::string_view name, Value otherwise) {
    const Value* const value = body.if_contains(name);
    return value == nullptr || value->is_null() ? otherwise : *value;
  };
  json::object out{{"id", id},
                   {"object", "response"},
                   {"created_at", created_s},
                   {"status", "in_progress"},
                   {"background", given("background", false)},
                   {"completed_at", nullptr},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", model},
                   {"output", json::array{}}};
  for (const std::string_view name :
       {"instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
        "prompt_cache_key", "safety_identifier", "user"}) {
    out[name] = given(name, nullptr);
  }
  out["metadata"] = given("metadata", json::object{});
  out["parallel_tool_calls"] = given("parallel_tool_calls", true);
  out["reasoning"] = given("reasoning", json::object{{"effort", nullptr}, {"summary", nullptr}});
  out["service_tier"] = "default";
  out["store"] = given("store", true);
  out["temperature"] = given("temperature", 1.0);
  out["text"] = given("text", json::object{{"format", json::object{{"type", "text"}}}});
  out["tool_choice"] = given("tool_choice", "auto");
  out["tools"] = given("tools", json::array{});
  out["top_logprobs"] = given("top_logprobs", 0);
  out["top_p"] = given("top_p", 1.0);
  out["truncation"] = given("truncation", "disabled");
  out["usage"] = nullptr;
  return out;
}

}  // namespace quire::server
