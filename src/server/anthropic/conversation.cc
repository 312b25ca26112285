// This file turns messages of Anthropic's form into messages of a chat.
#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <utility>

#include "server/anthropic/messages_request.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Returns a member that must be a string.
ApiResult<std::string> text_of(const json::object& block, std::string_view name,
                               const std::string& where) {
  const json::value* const value = block.if_contains(name);
  if (value == nullptr || !value->is_string()) {
    return wrong_value(fmt::format("{}.{}", where, name), "a string",
                       value != nullptr ? *value : json::value());
  }
  return std::string(value->get_string());
}

json::object text_part(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

// Conversation converts one message after the other. In Anthropic's form the user's text and the
// results of tools may share a message; in a chat each is a message of its own.
class Conversation {
 public:
  explicit Conversation(json::array& out) : out_(out) {}

  ApiCheck add(json::value& message, const std::string& where) {
    if (!message.is_object()) return wrong_value(where, "an object", message);
    json::object& object = message.get_object();
    ApiResult<std::string> role = text_of(object, "role", where);
    if (!role.ok()) return role.error();
    if (role.value() != "user" && role.value() != "assistant" && role.value() != "system") {
      return wrong_value(where + ".role", R"("user", "assistant" or "system")", object.at("role"));
    }
    json::value* const content = object.if_contains("content");
    begin(role.value());
    if (content != nullptr && content->is_string()) {
      parts_.push_back(text_part(std::string(content->get_string())));
    } else if (content != nullptr && content->is_array()) {
      for (size_t i = 0; i < content->get_array().size(); ++i) {
        const std::string at = fmt::format("{}.content.{}", where, i);
        if (ApiCheck error = add_block(content->get_array()[i], at)) return error;
      }
    } else {
      return wrong_value(where + ".content", "a string or a list of blocks",
                         content != nullptr ? *content : json::value());
    }
    flush(/*even_if_empty=*/true);
    return std::nullopt;
  }

  // Returns whether the last message is the assistant's and has text that an answer can continue.
  bool ends_open() const {
    if (out_.empty()) return false;
    const json::object& last = out_.back().get_object();
    return last.at("role") == "assistant" && !last.contains("tool_calls");
  }

 private:
  void begin(std::string role) {
    role_ = std::move(role);
    said_ = false;
  }

  ApiCheck add_block(json::value& block, const std::string& where) {
    if (!block.is_object()) return wrong_value(where, "a block", block);
    json::object& object = block.get_object();
    const ApiResult<std::string> type = text_of(object, "type", where);
    if (!type.ok()) return type.error();
    if (type.value() == "text") return add_text(object, where);
    const bool is_assistant = role_ == "assistant";
    if (is_assistant && type.value() == "thinking") return add_thinking(object, where);
    if (is_assistant && type.value() == "redacted_thinking") return std::nullopt;
    if (is_assistant && type.value() == "tool_use") return add_call(object, where);
    if (role_ == "user" && type.value() == "tool_result") return add_result(object, where);
    return field_error(where + ".type",
                       fmt::format("expected {}, got {}; this model reads text alone",
                                   is_assistant      ? "text, thinking or tool_use"
                                   : role_ == "user" ? "text or tool_result"
                                                     : "text",
                                   in_quotes(type.value())));
  }

  ApiCheck add_text(const json::object& block, const std::string& where) {
    ApiResult<std::string> text = text_of(block, "text", where);
    if (!text.ok()) return text.error();
    parts_.push_back(text_part(std::move(text).value()));
    return std::nullopt;
  }

  ApiCheck add_thinking(const json::object& block, const std::string& where) {
    const ApiResult<std::string> text = text_of(block, "thinking", where);
    if (!text.ok()) return text.error();
    if (!thinking_.empty()) thinking_ += "\n";
    thinking_ += text.value();
    return std::nullopt;
  }

  ApiCheck add_call(json::object& block, const std::string& where) {
    ApiResult<std::string> id = text_of(block, "id", where);
    if (!id.ok()) return id.error();
    ApiResult<std::string> name = text_of(block, "name", where);
    if (!name.ok()) return name.error();
    json::value* const input = block.if_contains("input");
    if (input == nullptr || !input->is_object()) {
      return wrong_value(where + ".input", "an object", input != nullptr ? *input : json::value());
    }
    names_[id.value()] = name.value();
    json::object function{{"name", std::move(name).value()}, {"arguments", std::move(*input)}};
    calls_.push_back(json::object{
        {"id", std::move(id).value()}, {"type", "function"}, {"function", std::move(function)}});
    return std::nullopt;
  }

  ApiCheck add_result(json::object& block, const std::string& where) {
    ApiResult<std::string> id = text_of(block, "tool_use_id", where);
    if (!id.ok()) return id.error();
    json::value content = "";
    if (json::value* const given = block.if_contains("content"); given && !given->is_null()) {
      if (ApiCheck error = check_result(*given, where + ".content")) return error;
      content = std::move(*given);
    }
    flush(/*even_if_empty=*/false);
    json::object message{{"role", "tool"}, {"content", std::move(content)}};
    if (const auto name = names_.find(id.value()); name != names_.end()) {
      message["name"] = name->second;
    }
    message["tool_call_id"] = std::move(id).value();
    out_.push_back(std::move(message));
    said_ = true;
    return std::nullopt;
  }

  static ApiCheck check_result(const json::value& content, const std::string& where) {
    if (content.is_string()) return std::nullopt;
    if (!content.is_array()) return wrong_value(where, "a string or a list of blocks", content);
    for (size_t i = 0; i < content.get_array().size(); ++i) {
      const std::string at = fmt::format("{}.{}", where, i);
      const json::value& block = content.get_array()[i];
      if (!block.is_object()) return wrong_value(at, "a block", block);
      const ApiResult<std::string> type = text_of(block.get_object(), "type", at);
      if (!type.ok()) return type.error();
      if (type.value() != "text") {
        return field_error(at + ".type", fmt::format("expected text, got {}; this model reads text "
                                                     "alone",
                                                     in_quotes(type.value())));
      }
      if (const auto text = text_of(block.get_object(), "text", at); !text.ok()) {
        return text.error();
      }
    }
    return std::nullopt;
  }

  // Appends a message of the collected parts.
  void flush(bool even_if_empty) {
    const bool is_empty = parts_.empty() && calls_.empty() && thinking_.empty();
    if (is_empty && (said_ || !even_if_empty)) return;
    json::object message{{"role", role_}, {"content", std::exchange(parts_, {})}};
    if (!thinking_.empty()) message["reasoning"] = std::exchange(thinking_, {});
    if (!calls_.empty()) message["tool_calls"] = std::exchange(calls_, {});
    out_.push_back(std::move(message));
    said_ = true;
  }

  json::array& out_;
  std::map<std::string, std::string> names_;  // names of calls, by id
  std::string role_, thinking_;
  json::array parts_, calls_;
  bool said_ = false;  // the current message has already given one
};

}  // namespace

ApiCheck read_messages(RequestFields& f, json::value& messages) {
  if (!messages.is_array()) return wrong_value("messages", "a list of messages", messages);
  json::array out;
  Conversation conversation(out);
  for (size_t i = 0; i < messages.get_array().size(); ++i) {
    if (ApiCheck error = conversation.add(messages.get_array()[i], fmt::format("messages.{}", i))) {
      return error;
    }
  }
  if (conversation.ends_open()) f.continue_final_message = true;
  for (json::value& message : out) f.messages.push_back(std::move(message));
  return std::nullopt;
}

}  // namespace quire::server
