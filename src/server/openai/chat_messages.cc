#include "server/openai/chat_messages.h"

#include <algorithm>
#include <boost/json/object.hpp>

#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr uint32_t kMaxArgumentsDepth = 32;

// Returns the "type" of a part, which must be an object.
ApiResult<std::string> part_type(const json::value& part, const std::string& where) {
  const auto* const object = part.if_object();
  const auto* const type = object ? object->if_contains("type") : nullptr;
  if (type != nullptr && type->is_string()) return std::string(type->get_string());
  return field_error(
      where, fmt::format("expected a content part with a \"type\", got {}", describe(part)));
}

// Returns what a part without text is called.
std::string_view media_name(std::string_view type) {
  if (type == "image_url" || type == "input_image") return "images";
  return type == "video" || type == "video_url" || type == "input_video" ? "videos" : "such media";
}

bool is_image(std::string_view type) { return media_name(type) == "images"; }

// Reads {"type": "image_url", "image_url": {"url": …}}, or a URL in the place of the inner object.
ApiResult<std::string> image_url(const json::object& part, const std::string& where) {
  const json::value* url = part.if_contains("image_url");
  if (url != nullptr && url->is_object()) url = url->get_object().if_contains("url");
  if (url != nullptr && url->is_string()) return std::string(url->get_string());
  return field_error(where + ".image_url", "expected an object with a \"url\" that is a string");
}

ApiResult<std::string> part_text(const json::value& part, const std::string& where) {
  if (part.is_string()) return std::string(part.get_string());
  const ApiResult<std::string> kind = part_type(part, where);
  if (!kind.ok()) return kind.error();
  const auto* const object = part.if_object();
  const std::string& type = kind.value();
  for (const std::string_view name : {"text", "input_text", "output_text", "refusal", "thinking"}) {
    if (type != name) continue;
    const std::string_view key = name == "refusal" || name == "thinking" ? name : "text";
    const auto* const text = object->if_contains(key);
    if (text == nullptr || !text->is_string()) {
      return field_error(where, fmt::format("expected a string as \"{}\"", key));
    }
    return std::string(text->get_string());
  }
  return field_error(where, fmt::format("expected text parts only, got {}: this model reads no {}",
                                        in_quotes(type), media_name(type)));
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

bool has_images(const json::value& content) {
  if (!content.is_array()) return false;
  return std::ranges::any_of(content.get_array(), [](const json::value& part) {
    const auto* const object = part.if_object();
    const auto* const type = object ? object->if_contains("type") : nullptr;
    return type != nullptr && type->is_string() && is_image(type->get_string());
  });
}

// Returns the list of a message's parts in the form that templates read.
ApiResult<json::array> content_parts(const json::value& content, const std::string& where,
                                     std::vector<ImagePart>& images) {
  json::array out;
  const auto add_text = [&out](std::string text) {
    out.push_back(json::object{{"type", "text"}, {"text", std::move(text)}});
  };
  if (!content.is_array()) {
    ApiResult<std::string> text = content_text(content, where);
    if (!text.ok()) return text.error();
    if (!text.value().empty()) add_text(std::move(text).value());
    return out;
  }
  const json::array& parts = content.get_array();
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part_where = fmt::format("{}.{}", where, i);
    if (parts[i].is_object() && has_images(json::array{parts[i]})) {
      ApiResult<std::string> url = image_url(parts[i].get_object(), part_where);
      if (!url.ok()) return url.error();
      images.push_back({std::move(url).value(), part_where + ".image_url"});
      out.push_back(json::object{{"type", "image"}});
      continue;
    }
    ApiResult<std::string> text = part_text(parts[i], part_where);
    if (!text.ok()) return text.error();
    add_text(std::move(text).value());
  }
  return out;
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

// Returns the content in the form that the template takes. Its text without images is
// result.last_content.
ApiCheck normalize_content(const json::object& message, const std::string& where,
                           const ChatContentRules& rules, ChatMessages& result, json::object& out) {
  const json::value nothing = "";
  const auto* const given = message.if_contains("content");
  const json::value& content = given == nullptr ? nothing : *given;
  if (!rules.in_parts && !(rules.reads_images && has_images(content))) {
    ApiResult<std::string> text = content_text(content, where);
    if (!text.ok()) return text.error();
    out["content"] = text.value();
    result.last_content = std::move(text).value();
    return std::nullopt;
  }
  ApiResult<json::array> parts = content_parts(content, where, result.images);
  if (!parts.ok()) return parts.error();
  result.last_content.clear();
  for (const json::value& part : parts.value()) {
    if (const auto* const text = part.get_object().if_contains("text"))
      result.last_content += text->get_string();
  }
  out["content"] = std::move(parts).value();
  return std::nullopt;
}

ApiResult<json::object> normalize(json::object& message, const std::string& where,
                                  const ChatContentRules& rules, ChatMessages& result) {
  const auto* const role = message.if_contains("role");
  if (role == nullptr || !role->is_string() || role->get_string().empty()) {
    return field_error(where + ".role", "expected a role such as \"user\"");
  }
  constexpr size_t kMaxRoleBytes = 64;  // every chunk of the answer repeats it
  if (role->get_string().size() > kMaxRoleBytes) {
    return field_error(where + ".role", fmt::format("expected at most {} bytes, got {}",
                                                    kMaxRoleBytes, in_quotes(role->get_string())));
  }
  json::object out;
  out["role"] = role->get_string();
  result.last_role = std::string(role->get_string());
  if (ApiCheck error = normalize_content(message, where + ".content", rules, result, out))
    return *error;
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
    out["reasoning_content"] = reasoning->get_string();  // many templates still read this name
  }
  if (auto* const calls = message.if_contains("tool_calls");
      calls != nullptr && !calls->is_null()) {
    if (ApiCheck error = parse_tool_calls(*calls, where + ".tool_calls")) return *error;
    if (!calls->get_array().empty()) out["tool_calls"] = std::move(*calls);
  }
  return out;
}

}  // namespace

ApiResult<ChatMessages> normalize_messages(json::array messages, const ChatContentRules& rules) {
  ChatMessages result;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages.{}", i);
    if (!messages[i].is_object()) {
      return field_error(where, fmt::format("expected an object, got {}", describe(messages[i])));
    }
    ApiResult<json::object> message = normalize(messages[i].get_object(), where, rules, result);
    if (!message.ok()) return message.error();
    result.messages.emplace_back(std::move(message).value());
  }
  return result;
}

}  // namespace quire::server
