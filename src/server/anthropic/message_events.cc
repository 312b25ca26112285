#include "server/anthropic/message_events.h"

#include <algorithm>
#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr uint32_t kMaxInputDepth = 64;

void append(json::object& to, std::string_view name, const json::object& from) {
  json::value& into = to[name];
  if (!into.is_string()) into.emplace_string();
  into.get_string().append(text_member(from, name));
}

}  // namespace

void MessageEventBuilder::add(const json::object& chunk, MessageEvents& out) {
  if (const json::value* const usage = find_member(chunk, "usage")) {
    const json::object& counts = usage->as_object();
    prompt_tokens_ = count_member(counts, "prompt_tokens");
    output_tokens_ = count_member(counts, "completion_tokens");
    if (const json::value* const details = find_member(counts, "prompt_tokens_details")) {
      cached_tokens_ = count_member(details->as_object(), "cached_tokens");
    }
    if (const json::value* const details = find_member(counts, "completion_tokens_details")) {
      if (details->as_object().contains("reasoning_tokens")) {
        thinking_tokens_ = count_member(details->as_object(), "reasoning_tokens");
      }
    }
  }
  if (!std::exchange(started_, true)) out.push_back(start_event());
  for (const json::value& choice : chunk.at("choices").as_array()) {
    const json::object& object = choice.as_object();
    add_delta(object.at("delta").as_object(), out);
    if (const json::value* const reason = find_member(object, "finish_reason")) {
      finish_reason_ = reason->as_string();
      const std::string_view text = text_member(object, "stop_reason");
      if (!text.empty()) stop_sequence_ = std::string(text);
    }
  }
}

void MessageEventBuilder::add_delta(const json::object& delta, MessageEvents& out) {
  if (const std::string_view text = text_member(delta, "reasoning"); !text.empty()) {
    open(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
    push_delta({{"type", "thinking_delta"}, {"thinking", text}}, out);
  }
  if (const std::string_view text = text_member(delta, "content"); !text.empty()) {
    open(Block::kText, {{"type", "text"}, {"text", ""}}, out);
    push_delta({{"type", "text_delta"}, {"text", text}}, out);
  }
  if (const json::value* const calls = find_member(delta, "tool_calls")) {
    for (const json::value& call : calls->as_array()) add_call(call.as_object(), out);
  }
}

void MessageEventBuilder::add_call(const json::object& call, MessageEvents& out) {
  const json::object& function = call.at("function").as_object();
  if (call.contains("id")) {
    has_call_ = true;
    close(out);
    open(Block::kToolUse,
         {{"type", "tool_use"},
          {"id", call.at("id")},
          {"name", function.at("name")},
          {"input", json::object{}}},
         out);
  }
  const std::string_view arguments = text_member(function, "arguments");
  if (arguments.empty()) return;
  push_delta({{"type", "input_json_delta"}, {"partial_json", arguments}}, out);
}

void MessageEventBuilder::open(Block kind, json::object block, MessageEvents& out) {
  if (open_ == kind) return;
  close(out);
  open_ = kind;
  out.push_back({{"type", "content_block_start"},
                 {"index", num_blocks_},
                 {"content_block", std::move(block)}});
}

void MessageEventBuilder::close(MessageEvents& out) {
  if (open_ == Block::kNone) return;
  // Clients send the signature back with the block. Quire's signature is the id of the block's
  // message.
  if (open_ == Block::kThinking) {
    push_delta({{"type", "signature_delta"}, {"signature", shape_.id}}, out);
  }
  out.push_back({{"type", "content_block_stop"}, {"index", num_blocks_}});
  ++num_blocks_;
  open_ = Block::kNone;
}

void MessageEventBuilder::push_delta(json::object delta, MessageEvents& out) const {
  out.push_back(
      {{"type", "content_block_delta"}, {"index", num_blocks_}, {"delta", std::move(delta)}});
}

json::object MessageEventBuilder::start_event() const {
  json::object message{{"id", shape_.id},          {"type", "message"},
                       {"role", "assistant"},      {"model", shape_.model},
                       {"content", json::array{}}, {"stop_reason", nullptr},
                       {"stop_sequence", nullptr}, {"usage", usage()}};
  return {{"type", "message_start"}, {"message", std::move(message)}};
}

// The input tokens are counted without those from the prefix cache.
json::object MessageEventBuilder::usage() const {
  json::object out{{"input_tokens", prompt_tokens_ - cached_tokens_},
                   {"cache_creation_input_tokens", 0},
                   {"cache_read_input_tokens", cached_tokens_},
                   {"output_tokens", output_tokens_}};
  if (thinking_tokens_) {
    out["output_tokens_details"] = json::object{{"thinking_tokens", *thinking_tokens_}};
  }
  return out;
}

std::string_view MessageEventBuilder::stop_reason() const {
  if (finish_reason_ == "length") {
    const bool context_is_full = output_tokens_ < shape_.max_tokens &&
                                 prompt_tokens_ + output_tokens_ >= shape_.max_model_len;
    return context_is_full ? "model_context_window_exceeded" : "max_tokens";
  }
  if (stop_sequence_) return "stop_sequence";
  // When the client names the tool, finish_reason is "stop", as in OpenAI's API.
  return has_call_ ? "tool_use" : "end_turn";
}

void MessageEventBuilder::finish(MessageEvents& out) {
  close(out);
  json::object delta{{"stop_reason", stop_reason()}, {"stop_sequence", nullptr}};
  if (stop_sequence_) delta["stop_sequence"] = *stop_sequence_;
  out.push_back({{"type", "message_delta"}, {"delta", std::move(delta)}, {"usage", usage()}});
  out.push_back({{"type", "message_stop"}});
}

void MessageFold::add(json::object event) {
  const std::string_view type = text_member(event, "type");
  if (type == "message_start") {
    message_ = std::move(event.at("message").as_object());
  } else if (type == "content_block_start") {
    held_bytes_ += memory_bytes(event.at("content_block"));
    message_.at("content").as_array().push_back(std::move(event.at("content_block")));
  } else if (type == "content_block_delta") {
    add_delta(message_.at("content").as_array().back().as_object(), event.at("delta").as_object());
  } else if (type == "content_block_stop") {
    json::object& block = message_.at("content").as_array().back().as_object();
    if (text_member(block, "type") != "tool_use") return;
    Result<json::value> input = parse_json(std::exchange(input_, {}), kMaxInputDepth);
    // A call that was cut off has no complete object.
    if (input.ok() && input->is_object()) {
      held_bytes_ += memory_bytes(*input);
      block["input"] = std::move(input).value();
    }
  } else if (type == "message_delta") {
    for (auto& member : event.at("delta").as_object()) {
      message_[member.key()] = std::move(member.value());
    }
    message_["usage"] = std::move(event.at("usage"));
  }
}

void MessageFold::add_delta(json::object& block, json::object& delta) {
  for (const std::string_view name : {"text", "thinking", "signature"}) {
    if (!delta.contains(name)) continue;
    held_bytes_ += text_member(delta, name).size();
    append(block, name, delta);
  }
  const std::string_view part = text_member(delta, "partial_json");
  held_bytes_ += part.size();
  input_ += part;
}

}  // namespace quire::server
