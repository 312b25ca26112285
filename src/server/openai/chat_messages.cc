#include "server/openai/chat_messages.h"

#include <boost/json/object.hpp>

#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr uint32_t kMaxArgumentsDepth = 32;

ApiResult<std::string> part_text(const json::value& part, const std::string& where) {
  if (part.is_string()) return std::string(part.get_string());
  const auto* const object = part.if_object();
  const auto* const type = object ? object->if_contains("type") : nullptr;
  if (type == nullptr || !type->is_string()) {
    return field_error(
        where, fmt::format("expected a content part with a \"type\", got {}", describe(part)));
  }
  for (const std::string_view name : {"text", "input_text", "output_text", "refusal", "thinking"}) {
    if (type->get_string() != name) continue;
    const std::string_view key = name == "refusal" || name == "thinking" ? name : "text";
    const auto* const text = object->if_contains(key);
    if (text == nullptr || !text->is_string()) {
      return field_error(where, fmt::format("expected a string as \"{}\"", key));
    }
    return std::string(text->get_string());
  }
  return field_error(where, "expected text parts only; this model reads no images, audio or video");
}

ApiResult<std::string> content_text(const json::value& content, const std::string& where) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return std::string(content.get_string());
  if (!content.is_array()) {
    return field_error(
        where, fmt::format("expected a string or a list of parts, got {}", describe(content)));
  }
  std::string joined;
  bool first = true;
  for (const json::value& part : content.get_array()) {
    ApiResult<std::string> text = part_text(part, where);
    if (!text.ok()) return text.error();
    if (!first) joined += "\n";
    joined += text.value();
    first = false;
  }
  return joined;
}

// Clients send arguments as JSON text; templates print them as JSON themselves.
ApiCheck parse_tool_calls(json::value& calls, const std::string& where) {
  if (!calls.is_array()) return field_error(where, "expected a list of tool calls");
  for (json::value& call : calls.get_array()) {
    auto* const object = call.if_object();
    auto* const function = object ? object->if_contains("function") : nullptr;
    if (function == nullptr || !function->is_object() || !function->get_object().contains("name")) {
      return field_error(where, "expected each tool call with a \"function\" that has a \"name\"");
    }
    auto* const arguments = function->get_object().if_contains("arguments");
    if (arguments == nullptr || arguments->is_null()) {
      function->get_object()["arguments"] = json::object{};
    } else if (arguments->is_string()) {
      if (arguments->get_string().empty()) {
        *arguments = json::object{};
        continue;
      }
      Result<json::value> parsed = parse_json(arguments->get_string(), kMaxArgumentsDepth);
      if (!parsed.ok()) {
        return field_error(where, "arguments: " + parsed.status().message());
      }
      *arguments = std::move(parsed).value();
    }
  }
  return std::nullopt;
}

ApiResult<json::object> normalize(json::object& message, const std::string& where) {
  const auto* const role = message.if_contains("role");
  if (role == nullptr || !role->is_string() || role->get_string().empty()) {
    return field_error(where + ".role", "expected a role such as \"user\"");
  }
  constexpr size_t kMaxRoleBytes = 64;  // it comes back in every chunk of the answer
  if (role->get_string().size() > kMaxRoleBytes) {
    return field_error(where + ".role", fmt::format("expected at most {} bytes, got {}",
                                                    kMaxRoleBytes, quoted(role->get_string())));
  }
  json::object out;
  out["role"] = role->get_string();
  if (const auto* const content = message.if_contains("content"); content != nullptr) {
    ApiResult<std::string> text = content_text(*content, where + ".content");
    if (!text.ok()) return text.error();
    out["content"] = std::move(text).value();
  } else {
    out["content"] = "";
  }
  for (const std::string_view key : {"name", "tool_call_id"}) {
    if (const auto* const value = message.if_contains(key);
        value != nullptr && value->is_string()) {
      out[key] = value->get_string();
    }
  }
  const auto* reasoning = message.if_contains("reasoning");
  if (reasoning == nullptr) reasoning = message.if_contains("reasoning_content");
  if (reasoning != nullptr && reasoning->is_string()) {
    out["reasoning"] = reasoning->get_string();
    out["reasoning_content"] = reasoning->get_string();  // the name many templates still read
  }
  if (auto* const calls = message.if_contains("tool_calls");
      calls != nullptr && !calls->is_null()) {
    if (ApiCheck error = parse_tool_calls(*calls, where + ".tool_calls")) return *error;
    if (!calls->get_array().empty()) out["tool_calls"] = std::move(*calls);
  }
  return out;
}

}  // namespace

ApiResult<ChatMessages> normalize_messages(json::array messages) {
  ChatMessages result;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages.{}", i);
    if (!messages[i].is_object()) {
      return field_error(where, fmt::format("expected an object, got {}", describe(messages[i])));
    }
    ApiResult<json::object> message = normalize(messages[i].get_object(), where);
    if (!message.ok()) return message.error();
    result.last_role = std::string(message.value()["role"].get_string());
    result.last_content = std::string(message.value()["content"].get_string());
    result.messages.emplace_back(std::move(message).value());
  }
  return result;
}

}  // namespace quire::server
