#include "chat/chat_prompt.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <string_view>
#include <utility>

#include "chat/jinja/value/text.h"

namespace quire {
namespace {

constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::array<std::string_view, 3> kReasoningFields{"reasoning_content", "thinking",
                                                           "reasoning"};
constexpr std::array<std::string_view, 8> kReserved{
    "messages",      "tools",    "documents",   "add_generation_prompt", "continue_final_message",
    "chat_template", "tokenize", "conversation"};

// Clients send null for absent members; templates expect the key to be missing.
boost::json::object without_nulls(const boost::json::object& message) {
  boost::json::object out;
  for (const auto& [key, value] : message) {
    if (!value.is_null()) out.emplace(key, value);
  }
  return out;
}

// Templates use one of three names for the model's reasoning. Whichever name the message has, the
// two common ones are added.
boost::json::object with_reasoning_names(boost::json::object message) {
  const boost::json::value* reasoning = nullptr;
  for (const std::string_view field : kReasoningFields) {
    reasoning = message.if_contains({field.data(), field.size()});
    if (reasoning != nullptr) break;
  }
  if (reasoning == nullptr) return message;
  const boost::json::value text = *reasoning;
  boost::json::object out;
  out["thinking"] = text;
  for (const auto& [key, value] : message) out[key] = value;
  out["reasoning_content"] = text;
  return out;
}

// The tool calls of an assistant have their arguments as JSON text; templates expect an object.
void parse_arguments(boost::json::object& message) {
  boost::json::value* calls = message.if_contains("tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (boost::json::value& call : calls->get_array()) {
    if (!call.is_object()) continue;
    boost::json::value* function = call.get_object().if_contains("function");
    if (function == nullptr || !function->is_object()) continue;
    boost::json::value* arguments = function->get_object().if_contains("arguments");
    if (arguments == nullptr || !arguments->is_string()) continue;
    if (arguments->get_string().empty()) {
      *arguments = boost::json::object();
      continue;
    }
    boost::json::error_code error;
    boost::json::value parsed = boost::json::parse(arguments->get_string(), error);
    if (!error && parsed.is_object()) *arguments = std::move(parsed);
  }
}

Status check_options(const ChatPromptOptions& options) {
  if (options.messages.empty()) return invalid_argument("messages: expected at least one message");
  for (const boost::json::value& message : options.messages) {
    if (!message.is_object())
      return invalid_argument("messages: expected every message to be an object");
  }
  if (options.add_generation_prompt && options.continue_final_message) {
    return invalid_argument("add_generation_prompt and continue_final_message exclude each other");
  }
  return check_template_kwargs(options.template_kwargs);
}

// Appends a mark to the last message, and returns the message's text without it.
Result<std::string> mark_final_message(boost::json::object& message) {
  boost::json::value* content = message.if_contains("content");
  boost::json::string* text = nullptr;
  if (content != nullptr && content->is_string()) text = &content->get_string();
  if (content != nullptr && content->is_array()) {
    for (boost::json::value& block : content->get_array()) {
      boost::json::value* block_text =
          block.is_object() ? block.get_object().if_contains("text") : nullptr;
      if (block_text != nullptr && block_text->is_string()) text = &block_text->get_string();
    }
  }
  if (text == nullptr) {
    return invalid_argument("continue_final_message: the final message has no text to continue");
  }
  std::string original(*text);
  text->append(kContinueTag);
  return original;
}

// Cuts the prompt at the mark, without the white space that the template trimmed off the message.
Result<std::string> cut_at_mark(std::string prompt, std::string_view final_text) {
  using jinja::Side;
  using jinja::strip;
  const std::string_view mark = strip(kContinueTag, Side::kBoth);
  const size_t at = prompt.rfind(mark);
  if (at == std::string::npos || prompt.find(strip(final_text, Side::kBoth)) == std::string::npos) {
    return invalid_argument(
        "continue_final_message: the final message does not appear in the rendered prompt");
  }
  const bool kept_spacing = std::string_view(prompt).substr(at).starts_with(kContinueTag);
  prompt.resize(at);
  return kept_spacing ? prompt : std::string(strip(prompt, Side::kRight));
}

}  // namespace

Status check_template_kwargs(const boost::json::object& kwargs) {
  for (const std::string_view name : kReserved) {
    if (kwargs.contains({name.data(), name.size()})) {
      return invalid_argument(
          "chat_template_kwargs: '{}' is a field of the request, not a template variable", name);
    }
  }
  return {};
}

Result<std::string> render_chat(const ChatTemplate& chat_template, ChatPromptOptions options,
                                const RenderOptions& render_options) {
  QUIRE_RETURN_IF_ERROR(check_options(options));
  boost::json::array messages;
  for (const boost::json::value& message : options.messages) {
    boost::json::object plain = with_reasoning_names(without_nulls(message.get_object()));
    if (options.parse_tool_arguments) parse_arguments(plain);
    messages.push_back(std::move(plain));
  }
  std::string final_text;
  if (options.continue_final_message) {
    if (chat_template.source().find("content") == std::string::npos) {
      return invalid_argument(
          "continue_final_message: the chat template does not show the content");
    }
    QUIRE_ASSIGN_OR_RETURN(final_text, mark_final_message(messages.back().get_object()));
  }
  boost::json::object context = std::move(options.special_tokens);
  for (auto& [key, value] : options.template_kwargs) context[key] = std::move(value);
  context["messages"] = std::move(messages);
  context["tools"] =
      options.tools ? boost::json::value(std::move(*options.tools)) : boost::json::value();
  context["documents"] =
      options.documents ? boost::json::value(std::move(*options.documents)) : boost::json::value();
  context["add_generation_prompt"] = options.add_generation_prompt;
  QUIRE_ASSIGN_OR_RETURN(std::string prompt, chat_template.render(context, render_options));
  if (!options.continue_final_message) return prompt;
  return cut_at_mark(std::move(prompt), final_text);
}

}  // namespace quire
