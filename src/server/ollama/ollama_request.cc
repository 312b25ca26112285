#include "server/ollama/ollama_request.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/json/json_members.h"
#include "server/llama/llama_options.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using F = RequestFields;
using Value = json::value;

// Reads tool calls. Their arguments are objects, and older clients send no ids.
ApiCheck read_calls(Value& calls, const std::string& where, json::object& message) {
  if (!calls.is_array()) return wrong_value(where, "a list of tool calls", calls);
  json::array out;
  for (size_t i = 0; i < calls.get_array().size(); ++i) {
    Value& call = calls.get_array()[i];
    Value* const function = call.is_object() ? find_member(call.get_object(), "function") : nullptr;
    Value* const name = function != nullptr && function->is_object()
                            ? find_member(function->get_object(), "name")
                            : nullptr;
    if (name == nullptr || !name->is_string()) {
      return wrong_value(fmt::format("{}.{}", where, i), R"({"function": {"name": ...}})", call);
    }
    Value* const arguments = find_member(function->get_object(), "arguments");
    if (arguments != nullptr && !arguments->is_object()) {
      return wrong_value(fmt::format("{}.{}.function.arguments", where, i), "an object",
                         *arguments);
    }
    Value* const id = find_member(call.get_object(), "id");
    json::object made{
        {"name", std::move(*name)},
        {"arguments", arguments != nullptr ? std::move(*arguments) : Value(json::object{})}};
    out.push_back(json::object{{"id", id != nullptr ? std::move(*id) : Value("")},
                               {"type", "function"},
                               {"function", std::move(made)}});
  }
  if (!out.empty()) message["tool_calls"] = std::move(out);
  return std::nullopt;
}

// Reads images in base64. A message with images becomes a list of parts, the images first.
ApiCheck add_images(Value& images, const std::string& where, json::object& message) {
  if (!images.is_array()) return wrong_value(where, "a list of images in base64", images);
  if (images.get_array().empty()) return std::nullopt;
  json::array parts;
  for (size_t i = 0; i < images.get_array().size(); ++i) {
    const Value& image = images.get_array()[i];
    if (!image.is_string()) {
      return wrong_value(fmt::format("{}.{}", where, i), "an image in base64", image);
    }
    json::object url{{"url", fmt::format("data:;base64,{}", std::string_view(image.get_string()))}};
    parts.push_back(json::object{{"type", "image_url"}, {"image_url", std::move(url)}});
  }
  parts.push_back(json::object{{"type", "text"}, {"text", std::move(message["content"])}});
  message["content"] = std::move(parts);
  return std::nullopt;
}

ApiCheck read_message(Value& value, const std::string& where, json::object& out) {
  if (!value.is_object()) return wrong_value(where, "an object", value);
  json::object& message = value.get_object();
  for (const std::string_view name : {"role", "content", "thinking", "tool_name", "tool_call_id"}) {
    Value* const text = find_member(message, name);
    if (text == nullptr) continue;
    if (!text->is_string())
      return wrong_value(fmt::format("{}.{}", where, name), "a string", *text);
    out[name == "thinking"    ? std::string_view("reasoning")
        : name == "tool_name" ? std::string_view("name")
                              : name] = std::move(*text);
  }
  if (!out.contains("role")) return field_error(where + ".role", "expected a role, got none");
  if (!out.contains("content")) out["content"] = "";
  if (Value* const images = find_member(message, "images")) {
    if (ApiCheck error = add_images(*images, where + ".images", out)) return error;
  }
  Value* const calls = find_member(message, "tool_calls");
  return calls == nullptr ? std::nullopt : read_calls(*calls, where + ".tool_calls", out);
}

ApiCheck set_messages(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("messages", "a list of messages", value);
  for (size_t i = 0; i < value.get_array().size(); ++i) {
    json::object message;
    if (ApiCheck error =
            read_message(value.get_array()[i], fmt::format("messages.{}", i), message)) {
      return error;
    }
    f.messages.push_back(std::move(message));
  }
  return std::nullopt;
}

// Returns the user's message of an /api/generate request, whose fields come in any order.
json::object& said_by_user(F& f) {
  if (f.messages.empty() || f.messages.back().get_object().at("role") != "user") {
    f.messages.push_back(json::object{{"role", "user"}, {"content", ""}});
  }
  return f.messages.back().get_object();
}

// With `raw`, the prompt is a text to continue.
ApiCheck set_prompt(F& f, Value& value) {
  if (!value.is_string()) return wrong_value("prompt", "a string", value);
  Value& content = said_by_user(f).at("content");
  if (content.is_array()) {
    content.get_array().back().get_object()["text"] = value;
  } else {
    content = value;
  }
  f.prompt = std::move(value);
  return std::nullopt;
}

ApiCheck set_images(F& f, Value& value) { return add_images(value, "images", said_by_user(f)); }

ApiCheck set_system(F& f, Value& value) {
  if (!value.is_string()) return wrong_value("system", "a string", value);
  if (value.get_string().empty()) return std::nullopt;
  f.messages.insert(f.messages.begin(),
                    json::object{{"role", "system"}, {"content", std::move(value)}});
  return std::nullopt;
}

ApiCheck set_format(F& f, Value& value) {
  if (value == "") return std::nullopt;
  if (value == "json") {
    f.response_format =
        StructuredOutputs{.kind = StructuredOutputKind::kJsonObject, .field = "format"};
    return std::nullopt;
  }
  if (!value.is_object()) return wrong_value("format", "\"json\" or a JSON Schema", value);
  f.response_format = StructuredOutputs{
      .kind = StructuredOutputKind::kJson, .text = json::serialize(value), .field = "format"};
  return std::nullopt;
}

ApiCheck set_think(F& f, Value& value) {
  if (value.is_bool()) {
    f.chat_template_kwargs["enable_thinking"] = value.get_bool();
    return std::nullopt;
  }
  const FieldSetter set =
      std::get<FieldSetter>(field_of("reasoning_effort", Endpoint::kChat).target);
  if (value.is_string() && !set(f, value)) return std::nullopt;
  return wrong_value("think", "true, false, or one of low, medium, high", value);
}

// An Option is a member of `options` and the field of a chat that it sets.
struct Option {
  std::string_view name;
  std::string_view chat_name;
};
constexpr Option kOptions[] = {{"temperature", "temperature"},
                               {"top_k", "top_k"},
                               {"top_p", "top_p"},
                               {"min_p", "min_p"},
                               {"repeat_penalty", "repetition_penalty"},
                               {"presence_penalty", "presence_penalty"},
                               {"frequency_penalty", "frequency_penalty"}};
// These options are about the memory and the machines of Ollama's engine, or about samplers that
// Quire lacks.
constexpr std::string_view kOptionsWithoutEffect[] = {
    "num_ctx",       "num_batch",    "num_gpu",   "main_gpu",      "use_mmap",
    "use_mlock",     "num_thread",   "num_keep",  "numa",          "low_vram",
    "vocab_only",    "logits_all",   "f16_kv",    "tfs_z",         "mirostat",
    "mirostat_eta",  "mirostat_tau", "typical_p", "repeat_last_n", "penalize_newline",
    "embedding_only"};

ApiCheck set_option(F& f, std::string_view name, Value& value) {
  const std::string path = fmt::format("options.{}", name);
  if (name == "num_predict") return read_num_predict(path, value, f);
  if (name == "stop") return read_stop(path, value, f);
  if (name == "seed") return read_seed(path, value, f);
  const auto* const option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                          [&](const Option& o) { return o.name == name; });
  if (option == std::end(kOptions)) {
    const bool is_known =
        std::find(std::begin(kOptionsWithoutEffect), std::end(kOptionsWithoutEffect), name) !=
        std::end(kOptionsWithoutEffect);
    if (is_known) return std::nullopt;
    return field_error(fmt::format("options.{}", in_quotes(name)), "this option is unknown");
  }
  // The value is checked by the row of the chat's field.
  Field field = field_of(option->chat_name, Endpoint::kChat);
  field.name = path;
  return apply_field(field, f, value);
}

ApiCheck set_options(F& f, Value& value) {
  if (!value.is_object()) return wrong_value("options", "an object", value);
  for (auto& member : value.get_object()) {
    if (member.value().is_null()) continue;
    const std::string_view name{member.key().data(), member.key().size()};
    if (ApiCheck error = set_option(f, name, member.value())) return error;
  }
  return std::nullopt;
}

ApiCheck set_tools(F& f, Value& value) {
  if (value.is_array() && value.get_array().empty()) return std::nullopt;
  return std::get<FieldSetter>(field_of("tools", Endpoint::kChat).target)(f, value);
}

constexpr uint8_t kBoth = Field::kChatOnly | static_cast<uint8_t>(Endpoint::kCompletions);
constexpr auto kNone = std::nullopt;
constexpr auto kNoEffect = FieldSupport::kNoEffect;
constexpr auto kUnsupported = FieldSupport::kUnsupported;
constexpr std::string_view kAny = "{}";
constexpr std::string_view kString = R"({"type":"string"})";

const Field kCommon[] = {
    {"model", kBoth, &F::model, "", "null", "Name of the served model; absent: that model."},
    {"stream", kBoth, &F::stream, "", "true", "Answer as lines of JSON."},
    {"format", kBoth, &set_format,
     R"({"anyOf":[{"type":"string","enum":["","json"]},{"type":"object"}]})", "null",
     "What the text is: json, or a JSON Schema."},
    {"options", kBoth, &set_options,
     R"({"type":"object","properties":{"num_predict":{"type":"integer"},"temperature":{"type":"number"},"top_k":{"type":"integer"},"top_p":{"type":"number"},"min_p":{"type":"number"},"seed":{"type":"integer"},"stop":{"type":"array","items":{"type":"string"}},"repeat_penalty":{"type":"number"},"presence_penalty":{"type":"number"},"frequency_penalty":{"type":"number"}}})",
     "null", "How to sample; those about memory and machines have no effect."},
    {"think", kBoth, &set_think, R"({"type":["boolean","string"]})", "null",
     "Whether the model reasons, or how much."},
    {"keep_alive", kBoth, std::monostate{}, kAny, "null",
     "How long the model stays in memory after its last use (--models-dir): seconds, or 5m, 1h30m; "
     "below 0: until its place is wanted.",
     kNone, kNone, false, kNoEffect},
};
const Field kChat[] = {
    {"messages", kBoth, &set_messages,
     R"({"type":"array","items":{"type":"object","required":["role"],"properties":{"role":{"type":"string"},"content":{"type":"string"},"thinking":{"type":"string"},"tool_name":{"type":"string"},"images":{"type":"array","items":{"type":"string"}},"tool_calls":{"type":"array"}}}})",
     "", "The conversation, oldest message first."},
    {"tools", kBoth, &set_tools, R"({"type":"array","items":{"type":"object"}})", "[]",
     "Functions shown to the model, as in a chat."},
};
const Field kGenerate[] = {
    {"prompt", kBoth, &set_prompt, kString, "",
     "What the user says; with raw, a text to go on with."},
    {"system", kBoth, &set_system, kString, "null", "What goes before it."},
    {"raw", kBoth, std::monostate{}, R"({"type":"boolean"})", "false", "No chat template."},
    {"images", kBoth, &set_images, R"({"type":"array"})", "[]", "What the user shows, in base64."},
    {"template", kBoth, std::monostate{}, kString, "\"\"", "The model's own is used.", kNone, kNone,
     false, kUnsupported},
    {"suffix", kBoth, std::monostate{}, kString, "\"\"", "Text after the insertion.", kNone, kNone,
     false, kUnsupported},
    {"context", kBoth, std::monostate{}, kAny, "null", "Use /api/chat.", kNone, kNone, false,
     kUnsupported},
};

std::vector<Field> joined(std::span<const Field> more) {
  std::vector<Field> table(std::begin(kCommon), std::end(kCommon));
  table.insert(table.end(), more.begin(), more.end());
  return table;
}

}  // namespace

std::span<const Field> ollama_chat_field_table() {
  static const std::vector<Field> table = joined(kChat);
  return table;
}

std::span<const Field> ollama_generate_field_table() {
  static const std::vector<Field> table = joined(kGenerate);
  return table;
}

std::string ollama_model_name(std::string name, const ServedModel& served) {
  constexpr std::string_view kLatest = ":latest";
  const bool known =
      std::find(served.names.begin(), served.names.end(), name) != served.names.end();
  if (!known && name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  return name;
}

}  // namespace quire::server
