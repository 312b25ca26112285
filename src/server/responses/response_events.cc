#include "server/responses/response_events.h"

#include <fmt/format.h>

#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Returns the log-probabilities of a choice; empty when it has none.
json::array logprobs_of(const json::object& choice) {
  const json::value* const logprobs = find_member(choice, "logprobs");
  const json::value* const content =
      logprobs != nullptr ? find_member(logprobs->as_object(), "content") : nullptr;
  return content != nullptr ? content->as_array() : json::array();
}

constexpr std::string_view kText = "response.output_text";
constexpr std::string_view kReasoning = "response.reasoning_text";
constexpr std::string_view kArguments = "response.function_call_arguments";

}  // namespace

ResponseEventBuilder::ResponseEventBuilder(json::object response)
    : response_(std::move(response)) {}

void ResponseEventBuilder::push(json::object event, ResponseEvents& out) {
  event["sequence_number"] = sequence_++;
  out.push_back(std::move(event));
}

void ResponseEventBuilder::push_response(std::string_view type, ResponseEvents& out) {
  push({{"type", type}, {"response", response_}}, out);
}

void ResponseEventBuilder::begin(ResponseEvents& out) {
  push_response("response.created", out);
  if (text_member(response_, "status") == "queued") {
    push_response("response.queued", out);
    response_["status"] = "in_progress";
  }
  push_response("response.in_progress", out);
}

void ResponseEventBuilder::add_usage(const json::object& usage) {
  const int64_t input = count_member(usage, "prompt_tokens");
  const int64_t output = count_member(usage, "completion_tokens");
  int64_t cached = 0, reasoning = 0;
  if (const json::value* const details = find_member(usage, "prompt_tokens_details")) {
    cached = count_member(details->as_object(), "cached_tokens");
  }
  if (const json::value* const details = find_member(usage, "completion_tokens_details")) {
    reasoning = count_member(details->as_object(), "reasoning_tokens");
  }
  response_["usage"] = json::object{
      {"input_tokens", input},
      {"input_tokens_details", json::object{{"cached_tokens", cached}, {"cache_write_tokens", 0}}},
      {"output_tokens", output},
      {"output_tokens_details", json::object{{"reasoning_tokens", reasoning}}},
      {"total_tokens", input + output}};
}

void ResponseEventBuilder::add(const json::object& chunk, ResponseEvents& out) {
  if (const json::value* const usage = find_member(chunk, "usage")) add_usage(usage->as_object());
  for (const json::value& value : chunk.at("choices").as_array()) {
    const json::object& choice = value.as_object();
    const json::object& delta = choice.at("delta").as_object();
    add_text(Item::kReasoning, text_member(delta, "reasoning"), {}, out);
    add_text(Item::kMessage, text_member(delta, "content"), logprobs_of(choice), out);
    if (const json::value* const calls = find_member(delta, "tool_calls")) {
      for (const json::value& call : calls->as_array()) add_call(call.as_object(), out);
    }
    if (text_member(choice, "finish_reason") == "length") is_cut_ = true;
  }
}

void ResponseEventBuilder::add_text(Item kind, std::string_view text, json::array logprobs,
                                    ResponseEvents& out) {
  if (text.empty()) return;
  const bool reasons = kind == Item::kReasoning;
  if (open_ != kind) {
    json::object opened{{"id", item_id(reasons ? "rs" : "msg")},
                        {"type", reasons ? "reasoning" : "message"},
                        {"status", "in_progress"},
                        {"content", json::array{}}};
    if (reasons) {
      opened["summary"] = json::array{};
    } else {
      opened["role"] = "assistant";
    }
    open(kind, std::move(opened), out);
    json::object part{{"type", reasons ? "reasoning_text" : "output_text"}, {"text", ""}};
    if (!reasons) {
      part["annotations"] = json::array{};
      part["logprobs"] = json::array{};
    }
    item().at("content").as_array().push_back(part);
    json::object added = about_part("response.content_part.added");
    added["part"] = std::move(part);
    push(std::move(added), out);
  }
  json::object& part = item().at("content").at(0).as_object();
  part.at("text").as_string().append(text);
  held_bytes_ += text.size() + memory_bytes(logprobs);
  json::object event = about_part(fmt::format("{}.delta", reasons ? kReasoning : kText));
  event["delta"] = text;
  if (!reasons) {
    for (const json::value& token : logprobs) part.at("logprobs").as_array().push_back(token);
    event["logprobs"] = std::move(logprobs);
  }
  push(std::move(event), out);
}

void ResponseEventBuilder::add_call(const json::object& call, ResponseEvents& out) {
  const json::object& function = call.at("function").as_object();
  if (call.contains("id")) {
    open(Item::kCall,
         {{"id", item_id("fc")},
          {"type", "function_call"},
          {"status", "in_progress"},
          {"call_id", call.at("id")},
          {"name", function.at("name")},
          {"arguments", ""}},
         out);
  }
  const std::string_view arguments = text_member(function, "arguments");
  if (arguments.empty()) return;
  held_bytes_ += arguments.size();
  item().at("arguments").as_string().append(arguments);
  json::object event = about_item(fmt::format("{}.delta", kArguments));
  event["delta"] = arguments;
  push(std::move(event), out);
}

void ResponseEventBuilder::open(Item kind, json::object item, ResponseEvents& out) {
  close("completed", out);
  open_ = kind;
  held_bytes_ += memory_bytes(item);
  response_.at("output").as_array().push_back(item);
  push({{"type", "response.output_item.added"},
        {"output_index", output_index()},
        {"item", std::move(item)}},
       out);
}

void ResponseEventBuilder::close(std::string_view status, ResponseEvents& out) {
  if (open_ == Item::kNone) return;
  json::object& open = item();
  if (open_ == Item::kCall) {
    json::object done = about_item(fmt::format("{}.done", kArguments));
    done["name"] = open.at("name");
    done["arguments"] = open.at("arguments");
    push(std::move(done), out);
  } else {
    const bool reasons = open_ == Item::kReasoning;
    const json::object& part = open.at("content").at(0).as_object();
    json::object done = about_part(fmt::format("{}.done", reasons ? kReasoning : kText));
    done["text"] = part.at("text");
    if (!reasons) done["logprobs"] = part.at("logprobs");
    push(std::move(done), out);
    json::object part_done = about_part("response.content_part.done");
    part_done["part"] = part;
    push(std::move(part_done), out);
  }
  open["status"] = status;
  push({{"type", "response.output_item.done"}, {"output_index", output_index()}, {"item", open}},
       out);
  open_ = Item::kNone;
}

void ResponseEventBuilder::finish(int64_t now_s, ResponseEvents& out) {
  close(is_cut_ ? "incomplete" : "completed", out);
  response_["status"] = is_cut_ ? "incomplete" : "completed";
  if (is_cut_) {
    response_["incomplete_details"] = json::object{{"reason", "max_output_tokens"}};
  } else {
    response_["completed_at"] = now_s;
  }
  push_response(is_cut_ ? "response.incomplete" : "response.completed", out);
}

void ResponseEventBuilder::fail(const ApiError& error, ResponseEvents& out) {
  close("incomplete", out);
  response_["status"] = "failed";
  response_["error"] =
      json::object{{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"},
                   {"message", presentable(error.message)}};
  push_response("response.failed", out);
}

json::object& ResponseEventBuilder::item() {
  return response_.at("output").as_array().back().as_object();
}

int64_t ResponseEventBuilder::output_index() const {
  return static_cast<int64_t>(response_.at("output").as_array().size()) - 1;
}

// Returns the id of the next item.
std::string ResponseEventBuilder::item_id(std::string_view prefix) const {
  std::string_view id = text_member(response_, "id");
  id.remove_prefix(std::min(id.find('_') + 1, id.size()));
  return fmt::format("{}_{}{:02x}", prefix, id, output_index() + 1);
}

json::object ResponseEventBuilder::about_item(std::string_view type) const {
  const json::array& output = response_.at("output").as_array();
  return {{"type", type},
          {"item_id", output.back().as_object().at("id")},
          {"output_index", output_index()}};
}

json::object ResponseEventBuilder::about_part(std::string_view type) const {
  json::object event = about_item(type);
  event["content_index"] = 0;
  return event;
}

}  // namespace quire::server
