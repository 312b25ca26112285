#include "facade/chat/conversation_file.h"

#include <boost/json.hpp>
#include <string>
#include <utility>

#include "base/base64.h"

namespace quire {
namespace {

namespace json = boost::json;

// Returns the text of a field; null if there is none or it is no text.
const json::string* text_of(const json::object& message, std::string_view name) {
  const json::value* const value = message.if_contains(name);
  return value == nullptr ? nullptr : value->if_string();
}

std::string_view media_type(std::string_view image) {
  if (image.starts_with("\x89PNG")) return "image/png";
  return image.starts_with("RIFF") ? "image/webp" : "image/jpeg";
}

json::object image_part(const std::string& image) {
  const std::string url = fmt::format("data:{};base64,{}", media_type(image), base64_encode(image));
  return {{"type", "image_url"}, {"image_url", json::object{{"url", url}}}};
}

json::value content_of(const ChatMessage& message) {
  if (message.images.empty()) return json::string(message.content);
  json::array parts;
  for (const std::string& image : message.images) parts.push_back(image_part(image));
  parts.push_back(json::object{{"type", "text"}, {"text", message.content}});
  return parts;
}

Status add_part(const json::object& part, ChatMessage& message) {
  if (const json::string* const text = text_of(part, "text")) {
    message.content += *text;
    return {};
  }
  const json::value* const image = part.if_contains("image_url");
  const json::string* const url =
      image != nullptr && image->is_object() ? text_of(image->get_object(), "url") : nullptr;
  const size_t comma = url == nullptr ? std::string::npos : url->find(',');
  if (comma == std::string::npos || !url->starts_with("data:"))
    return invalid_argument("expected a text, or an image_url with a data: URL");
  auto bytes = base64_decode(std::string_view(*url).substr(comma + 1));
  if (!bytes) return invalid_argument("image_url.url: expected base64 behind the comma");
  message.images.push_back(std::move(*bytes));
  return {};
}

Status read_content(const json::value* content, ChatMessage& message) {
  if (content != nullptr && content->is_string()) {
    message.content = std::string(content->get_string());
    return {};
  }
  if (content == nullptr || !content->is_array())
    return invalid_argument("expected a role, and content as a text or a list of parts");
  for (const json::value& part : content->get_array()) {
    if (!part.is_object()) return invalid_argument("content: expected parts as objects");
    QUIRE_RETURN_IF_ERROR(add_part(part.get_object(), message).with_context("content"));
  }
  return {};
}

Status check_order(const std::vector<ChatMessage>& messages) {
  const size_t first = !messages.empty() && messages.front().role == "system" ? 1 : 0;
  for (size_t i = first; i < messages.size(); ++i) {
    const std::string_view expected = (i - first) % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != expected)
      return invalid_argument("messages.{}.role: expected {}, got {}", i, expected,
                              messages[i].role);
  }
  if ((messages.size() - first) % 2 != 0)
    return invalid_argument("messages: expected an answer to the last question, got none");
  return {};
}

}  // namespace

std::string conversation_text(const std::vector<ChatMessage>& messages) {
  std::string out = "{\"messages\": [";
  for (size_t i = 0; i < messages.size(); ++i) {
    const json::object message{{"role", messages[i].role}, {"content", content_of(messages[i])}};
    out += (i == 0 ? "\n  " : ",\n  ") + json::serialize(message);
  }
  return out + "\n]}\n";
}

Result<std::vector<ChatMessage>> parse_conversation(std::string_view text) {
  json::error_code ec;
  const json::value body = json::parse({text.data(), text.size()}, ec);
  if (ec) return invalid_argument("expected JSON, got {}", ec.message());
  const json::value* const list =
      body.is_object() ? body.get_object().if_contains("messages") : nullptr;
  if (list == nullptr || !list->is_array())
    return invalid_argument("expected {{\"messages\": [...]}}, got something else");
  std::vector<ChatMessage> messages;
  for (const json::value& value : list->get_array()) {
    const json::object* const message = value.if_object();
    const json::string* const role = message == nullptr ? nullptr : text_of(*message, "role");
    const std::string where = fmt::format("messages.{}", messages.size());
    if (role == nullptr) return invalid_argument("{}: expected a role, and content", where);
    ChatMessage& read = messages.emplace_back(ChatMessage{std::string(*role), {}});
    QUIRE_RETURN_IF_ERROR(read_content(message->if_contains("content"), read).with_context(where));
  }
  QUIRE_RETURN_IF_ERROR(check_order(messages));
  return messages;
}

}  // namespace quire
