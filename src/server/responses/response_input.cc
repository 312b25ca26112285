#include "server/responses/response_input.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxIdBytes = 128;

ApiCheck check_string(const json::object& item, std::string_view name, const std::string& where) {
  const json::value* const value = find_member(item, name);
  if (value != nullptr && value->is_string()) return std::nullopt;
  return wrong_value(fmt::format("{}.{}", where, name), "a string",
                     value != nullptr ? *value : json::value());
}

// Checks content, which is a string or a list of parts: texts or images.
ApiCheck check_content(const json::value* content, const std::string& where,
                       bool has_images = false) {
  if (content != nullptr && content->is_string()) return std::nullopt;
  if (content == nullptr || !content->is_array()) {
    return wrong_value(where, "a string or a list of parts",
                       content != nullptr ? *content : json::value());
  }
  for (size_t i = 0; i < content->get_array().size(); ++i) {
    const json::value& part = content->get_array()[i];
    const std::string at = fmt::format("{}.{}", where, i);
    if (!part.is_object()) return wrong_value(at, "a part", part);
    const std::string_view type = text_member(part.get_object(), "type");
    const bool is_text = type == "input_text" || type == "output_text" || type == "text" ||
                         type == "refusal" || type == "reasoning_text" || type == "summary_text";
    if (has_images && type == "input_image") {
      if (ApiCheck error = check_string(part.get_object(), "image_url", at)) return error;
      continue;
    }
    if (!is_text) {
      return field_error(at + ".type",
                         fmt::format("expected {}, got {}",
                                     has_images ? "input_text, output_text or input_image"
                                                : "input_text or output_text",
                                     in_quotes(type)));
    }
    const std::string_view name = type == "refusal" ? "refusal" : "text";
    if (ApiCheck error = check_string(part.get_object(), name, at)) return error;
  }
  return std::nullopt;
}

ApiCheck check_message(const json::object& item, const std::string& where) {
  const std::string_view role = text_member(item, "role");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    const json::value* const value = find_member(item, "role");
    return wrong_value(where + ".role", R"("user", "assistant", "system" or "developer")",
                       value != nullptr ? *value : json::value());
  }
  return check_content(find_member(item, "content"), where + ".content", role != "assistant");
}

ApiCheck check_item(json::value& value, const std::string& where) {
  if (!value.is_object()) return wrong_value(where, "an item", value);
  json::object& item = value.get_object();
  if (find_member(item, "type") == nullptr && item.contains("role")) item["type"] = "message";
  const std::string_view type = text_member(item, "type");
  if (type == "message") return check_message(item, where);
  if (type == "function_call") {
    for (const std::string_view name : {"call_id", "name", "arguments"}) {
      if (ApiCheck error = check_string(item, name, where)) return error;
    }
    const std::string_view arguments = text_member(item, "arguments");
    if (arguments.empty()) return std::nullopt;
    const Result<json::value> parsed = parse_json(arguments, 64);
    if (parsed.ok() && parsed->is_object()) return std::nullopt;
    return field_error(where + ".arguments", "expected the JSON text of an object");
  }
  if (type == "function_call_output") {
    if (ApiCheck error = check_string(item, "call_id", where)) return error;
    return check_content(find_member(item, "output"), where + ".output", true);
  }
  if (type == "reasoning") {
    for (const std::string_view name : {"summary", "content"}) {
      const json::value* const parts = find_member(item, name);
      if (parts == nullptr) continue;
      if (ApiCheck error = check_content(parts, fmt::format("{}.{}", where, name))) return error;
    }
    return std::nullopt;
  }
  return field_error(where + ".type",
                     fmt::format("expected message, function_call, function_call_output or "
                                 "reasoning, got {}",
                                 in_quotes(type)));
}

std::string_view id_prefix(const json::object& item) {
  const std::string_view type = text_member(item, "type");
  if (type == "reasoning") return "rs";
  if (type == "function_call") return "fc";
  return type == "function_call_output" ? "fco" : "msg";
}

std::string_view text_of(const json::object& part) {
  return text_member(part, text_member(part, "type") == "refusal" ? "refusal" : "text");
}

// Returns the text of a string, or of all parts with one line for each.
std::string joined(const json::value* content) {
  if (content == nullptr) return {};
  if (content->is_string()) return std::string(content->get_string());
  std::string text;
  if (!content->is_array()) return text;
  for (const json::value& part : content->get_array()) {
    if (!text.empty()) text += "\n";
    text += text_of(part.as_object());
  }
  return text;
}

bool is_image(const json::value& part) {
  return part.is_object() && text_member(part.get_object(), "type") == "input_image";
}

// Returns content in a chat's form: a text, or a list of parts when there are images.
json::value chat_content(const json::value* content) {
  const json::array* parts = content == nullptr ? nullptr : content->if_array();
  if (parts == nullptr || std::none_of(parts->begin(), parts->end(), is_image))
    return json::string(joined(content));
  json::array out;
  for (const json::value& part : *parts) {
    if (is_image(part)) {
      out.push_back(json::object{{"type", "image_url"},
                                 {"image_url", json::object{{"url", part.at("image_url")}}}});
    } else {
      out.push_back(json::object{{"type", "text"}, {"text", text_of(part.as_object())}});
    }
  }
  return out;
}

}  // namespace

ApiResult<json::array> read_input(json::value input, std::string_view response_id) {
  if (input.is_string()) {
    json::value part = json::object{{"type", "input_text"}, {"text", std::move(input)}};
    input = json::array{json::object{
        {"type", "message"}, {"role", "user"}, {"content", json::array{std::move(part)}}}};
  }
  if (!input.is_array() || input.get_array().empty()) {
    return wrong_value("input", "a text or a list of items", input);
  }
  response_id.remove_prefix(std::min(response_id.find('_') + 1, response_id.size()));
  for (size_t i = 0; i < input.get_array().size(); ++i) {
    json::value& value = input.get_array()[i];
    const std::string where = fmt::format("input.{}", i);
    if (ApiCheck error = check_item(value, where)) return *error;
    json::object& item = value.get_object();
    const std::string_view id = text_member(item, "id");
    if (id.size() > kMaxIdBytes) {
      return field_error(where + ".id", fmt::format("expected at most {} bytes", kMaxIdBytes));
    }
    if (id.empty()) item["id"] = fmt::format("{}_{}in{:02x}", id_prefix(item), response_id, i);
  }
  return std::move(input.get_array());
}

void ItemConversation::add_message(std::string_view role, json::value content) {
  messages_.push_back(json::object{{"role", role}, {"content", std::move(content)}});
  is_open_ = false;
}

json::object& ItemConversation::assistant() {
  if (!is_open_) messages_.push_back(json::object{{"role", "assistant"}, {"content", ""}});
  is_open_ = true;
  return messages_.back().as_object();
}

void ItemConversation::add(const json::array& items) {
  for (const json::value& item : items) add_item(item.as_object());
}

void ItemConversation::add_item(const json::object& item) {
  const std::string_view type = text_member(item, "type");
  if (type == "reasoning") {
    std::string text = joined(find_member(item, "content"));
    if (text.empty()) text = joined(find_member(item, "summary"));
    // The assistant's earlier items end here; its next item begins a new message.
    is_open_ = false;
    assistant()["reasoning"] = std::move(text);
  } else if (type == "function_call") {
    json::object& message = assistant();
    if (!message.contains("tool_calls")) message["tool_calls"] = json::array{};
    message.at("tool_calls")
        .as_array()
        .push_back(json::object{{"id", item.at("call_id")},
                                {"type", "function"},
                                {"function", json::object{{"name", item.at("name")},
                                                          {"arguments", item.at("arguments")}}}});
  } else if (type == "function_call_output") {
    messages_.push_back(json::object{{"role", "tool"},
                                     {"tool_call_id", item.at("call_id")},
                                     {"content", chat_content(find_member(item, "output"))}});
    is_open_ = false;
  } else if (text_member(item, "role") == "assistant") {
    const bool has_text = is_open_ && !assistant().at("content").as_string().empty();
    if (has_text || (is_open_ && assistant().contains("tool_calls"))) is_open_ = false;
    assistant()["content"] = joined(find_member(item, "content"));
  } else {
    const std::string_view role = text_member(item, "role");
    add_message(role == "developer" ? "system" : role, chat_content(find_member(item, "content")));
  }
}

}  // namespace quire::server
