#include "server/openai/response_fold.h"

#include <utility>

#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr int64_t kMaxChoices = 1 << 20;

// Returns the member; null when it is absent or null.
json::value* member(json::object& object, std::string_view key) {
  json::value* const value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void keep(json::object& from, std::string_view key, json::value& into) {
  if (json::value* const value = member(from, key)) into = std::move(*value);
}

void append_text(json::object& from, std::string_view key, std::string& into, bool& seen) {
  json::value* const value = member(from, key);
  if (value == nullptr || !value->is_string()) return;
  seen = true;
  into += std::string_view(value->get_string().data(), value->get_string().size());
}

void append_list(json::value& from, json::value& into) {
  if (!from.is_array()) return;
  if (!into.is_array()) {
    into = std::move(from);
    return;
  }
  for (json::value& item : from.get_array()) into.get_array().push_back(std::move(item));
}

// Returns the bytes of those parts of a chunk, a choice or a delta that an answer collects.
uint64_t collected_bytes(const json::object& part) {
  uint64_t bytes = 0;
  for (const auto& [key, value] : part) {
    const std::string_view name(key.data(), key.size());
    if (value.is_string() && (name == "text" || name == "content" || name == "refusal" ||
                              name == "reasoning" || name == "prompt_text")) {
      bytes += value.get_string().size();
    } else if ((value.is_array() || value.is_object()) && name != "choices" && name != "delta" &&
               name != "usage") {  // log-probabilities, token ids, tool calls
      bytes += memory_bytes(value);
    }
  }
  return bytes;
}

json::value text_or_null(std::string& text, bool seen) {
  return seen ? json::value(text) : json::value();
}

}  // namespace

Status ResponseFold::add(json::object chunk) {
  if (json::value* const error = member(chunk, "error")) {
    const auto* const object = error->if_object();
    const auto* const message = object ? object->if_contains("message") : nullptr;
    return invalid_argument(
        "the stream failed: {}",
        message && message->is_string()
            ? std::string_view(message->get_string().data(), message->get_string().size())
            : std::string_view("no message"));
  }
  held_bytes_ += collected_bytes(chunk);
  keep(chunk, "id", id_);
  keep(chunk, "created", created_);
  keep(chunk, "model", model_);
  keep(chunk, "usage", usage_);
  keep(chunk, "metrics", metrics_);
  keep(chunk, "kv_transfer_params", kv_transfer_params_);
  keep(chunk, "system_fingerprint", system_fingerprint_);
  keep(chunk, "service_tier", service_tier_);
  keep(chunk, "prompt_token_ids", prompt_token_ids_);
  keep(chunk, "prompt_logprobs", prompt_logprobs_);
  keep(chunk, "prompt_text", prompt_text_);
  json::value* const choices = member(chunk, "choices");
  if (choices == nullptr || !choices->is_array()) {
    return invalid_argument("expected a chunk with a list of choices");
  }
  for (json::value& choice : choices->get_array()) {
    if (!choice.is_object()) return invalid_argument("expected each choice to be an object");
    QUIRE_RETURN_IF_ERROR(add_choice(choice.get_object()));
  }
  return {};
}

Status ResponseFold::add_choice(json::object& choice) {
  json::value* const index = member(choice, "index");
  if (index == nullptr || !index->is_int64() || index->get_int64() < 0 ||
      index->get_int64() >= kMaxChoices) {
    return invalid_argument("expected a choice index >= 0");
  }
  Choice& into = choices_[index->get_int64()];
  held_bytes_ += collected_bytes(choice);
  if (json::value* const delta = member(choice, "delta"); delta != nullptr && delta->is_object()) {
    held_bytes_ += collected_bytes(delta->get_object());
    add_delta(into, delta->get_object());
  }
  append_text(choice, "text", into.text, into.has_content);
  if (json::value* const logprobs = member(choice, "logprobs"); logprobs && logprobs->is_object()) {
    merge_logprobs(into, logprobs->get_object());
  }
  keep(choice, "finish_reason", into.finish_reason);
  keep(choice, "stop_reason", into.stop_reason);
  keep(choice, "prompt_token_ids", into.prompt_token_ids);
  keep(choice, "prompt_logprobs", into.prompt_logprobs);
  keep(choice, "prompt_text", into.prompt_text);
  if (json::value* const ids = member(choice, "token_ids"); ids != nullptr && ids->is_array()) {
    into.has_token_ids = true;
    for (json::value& id : ids->get_array()) into.token_ids.push_back(std::move(id));
  }
  return {};
}

void ResponseFold::add_delta(Choice& into, json::object& delta) {
  if (json::value* const role = member(delta, "role"); role != nullptr && role->is_string()) {
    into.role = std::string(role->get_string());
  }
  append_text(delta, "content", into.text, into.has_content);
  append_text(delta, "refusal", into.refusal, into.has_refusal);
  append_text(delta, "reasoning", into.reasoning, into.has_reasoning);
  if (json::value* const calls = member(delta, "tool_calls");
      calls != nullptr && calls->is_array()) {
    add_tool_calls(into, calls->get_array());
  }
}

void ResponseFold::add_tool_calls(Choice& into, json::array& calls) {
  for (json::value& value : calls) {
    if (!value.is_object()) continue;
    json::object& part = value.get_object();
    json::value* const index = member(part, "index");
    const int64_t at = index != nullptr && index->is_int64() ? index->get_int64() : 0;
    json::object& call = into.tool_calls[at];
    for (const std::string_view key : {"id", "type"}) {
      if (json::value* const text = member(part, key)) call[key] = std::move(*text);
    }
    json::value* const function = member(part, "function");
    if (function == nullptr || !function->is_object()) continue;
    if (!call.contains("function"))
      call["function"] = json::object{{"name", nullptr}, {"arguments", ""}};
    json::object& merged = call["function"].get_object();
    if (json::value* const name = member(function->get_object(), "name")) merged["name"] = *name;
    json::value* const arguments = member(function->get_object(), "arguments");
    if (arguments != nullptr && arguments->is_string()) {
      merged["arguments"].get_string() += arguments->get_string();
    }
  }
}

void ResponseFold::merge_logprobs(Choice& into, json::object& logprobs) {
  if (!into.logprobs.is_object()) into.logprobs.emplace_object();
  json::object& merged = into.logprobs.get_object();
  for (auto& [key, value] : logprobs) append_list(value, merged[key]);
}

json::object ResponseFold::chat_choice(Choice& choice) const {
  json::object message;
  message["role"] = choice.role;
  // An answer that is only a refusal or only tool calls has null content. Empty content is an empty
  // string.
  const bool other = choice.has_refusal || !choice.tool_calls.empty();
  message["content"] =
      text_or_null(choice.text, choice.has_content && !(other && choice.text.empty()));
  message["refusal"] = text_or_null(choice.refusal, choice.has_refusal && !choice.refusal.empty());
  message["annotations"] = nullptr;
  message["audio"] = nullptr;
  message["function_call"] = nullptr;
  if (!choice.tool_calls.empty()) {
    json::array calls;
    for (auto& [index, call] : choice.tool_calls) calls.emplace_back(std::move(call));
    message["tool_calls"] = std::move(calls);
  }
  message["reasoning"] = text_or_null(choice.reasoning, choice.has_reasoning);
  json::object out;
  out["message"] = std::move(message);
  out["logprobs"] = std::move(choice.logprobs);
  out["finish_reason"] = std::move(choice.finish_reason);
  out["stop_reason"] = std::move(choice.stop_reason);
  out["token_ids"] =
      choice.has_token_ids ? json::value(std::move(choice.token_ids)) : json::value();
  return out;
}

json::object ResponseFold::completion_choice(Choice& choice) const {
  json::object out;
  out["text"] = choice.text;
  out["logprobs"] = std::move(choice.logprobs);
  out["finish_reason"] = std::move(choice.finish_reason);
  out["stop_reason"] = std::move(choice.stop_reason);
  out["token_ids"] =
      choice.has_token_ids ? json::value(std::move(choice.token_ids)) : json::value();
  out["prompt_logprobs"] = std::move(choice.prompt_logprobs);
  out["prompt_token_ids"] = std::move(choice.prompt_token_ids);
  if (!choice.prompt_text.is_null()) out["prompt_text"] = std::move(choice.prompt_text);
  return out;
}

json::object ResponseFold::finish() {
  const bool chat = endpoint_ == Endpoint::kChat;
  json::object out;
  out["id"] = std::move(id_);
  out["object"] = chat ? "chat.completion" : "text_completion";
  out["created"] = std::move(created_);
  out["model"] = std::move(model_);
  json::array choices;
  for (auto& [index, choice] : choices_) {
    json::object body{{"index", index}};
    for (auto& [key, value] : chat ? chat_choice(choice) : completion_choice(choice)) {
      body[key] = std::move(value);
    }
    choices.emplace_back(std::move(body));
  }
  out["choices"] = std::move(choices);
  out["service_tier"] = std::move(service_tier_);
  out["system_fingerprint"] = std::move(system_fingerprint_);
  if (usage_.is_object() && !usage_.get_object().contains("prompt_tokens_details")) {
    usage_.get_object()["prompt_tokens_details"] = nullptr;
  }
  out["usage"] = std::move(usage_);
  if (!metrics_.is_null()) out["metrics"] = std::move(metrics_);
  if (chat) {
    out["prompt_logprobs"] = std::move(prompt_logprobs_);
    out["prompt_token_ids"] = std::move(prompt_token_ids_);
    if (!prompt_text_.is_null()) out["prompt_text"] = std::move(prompt_text_);
  }
  out["kv_transfer_params"] = std::move(kv_transfer_params_);
  return out;
}

}  // namespace quire::server
