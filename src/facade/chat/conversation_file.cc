#include "facade/chat/conversation_file.h"

#include <boost/json.hpp>
#include <utility>

namespace quire {
namespace {

namespace json = boost::json;

// Null: there is none, or it is no text.
const json::string* text_of(const json::object& message, std::string_view name) {
  const json::value* const value = message.if_contains(name);
  return value == nullptr ? nullptr : value->if_string();
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
    const json::object message{{"role", messages[i].role}, {"content", messages[i].content}};
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
    const json::string* const content = message == nullptr ? nullptr : text_of(*message, "content");
    if (role == nullptr || content == nullptr)
      return invalid_argument("messages.{}: expected a role and content as texts", messages.size());
    messages.push_back({std::string(*role), std::string(*content)});
  }
  QUIRE_RETURN_IF_ERROR(check_order(messages));
  return messages;
}

}  // namespace quire
