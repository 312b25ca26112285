#include "server/llama/llama_writer.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "server/http/sse.h"
#include "server/json/json_members.h"

namespace quire::server {

namespace json = boost::json;

std::string_view LlamaWriter::content_type() const {
  return head_.streams ? kEventStream : std::string_view("application/json");
}

Status LlamaWriter::add(json::object chunk, std::string& out) {
  for (const json::value& choice : chunk.at("choices").as_array()) {
    read_choice(choice.as_object(), out);
  }
  if (const json::value* const usage = find_member(chunk, "usage")) {
    num_tokens_ = count_member(usage->as_object(), "completion_tokens");
    if (const json::value* const times = find_member(usage->as_object(), "timings")) {
      prompt_ms_ = times->at("prompt_ms").to_number<double>();
      decode_ms_ = times->at("decode_ms").to_number<double>();
    }
  }
  return {};
}

void LlamaWriter::read_choice(const json::object& choice, std::string& out) {
  const std::string_view text = text_member(choice, "text");
  const json::value* const ids = find_member(choice, "token_ids");
  has_new_line_ |= text.find('\n') != text.npos;
  if (const std::string_view reason = text_member(choice, "finish_reason"); !reason.empty()) {
    stopping_word_ = text_member(choice, "stop_reason");
    stop_type_ = reason == "length" ? "limit" : stopping_word_.empty() ? "eos" : "word";
  }
  if (!head_.streams) {
    content_ += text;
    if (ids != nullptr) {
      for (const json::value& id : ids->as_array()) tokens_.push_back(id);
    }
    return;
  }
  if (text.empty() && ids == nullptr) return;
  out += sse_event(
      json::serialize(json::object{{"index", 0},
                                   {"content", text},
                                   {"tokens", ids != nullptr ? ids->as_array() : json::array()},
                                   {"stop", false},
                                   {"id_slot", -1},
                                   {"tokens_evaluated", head_.num_prompt_tokens}}));
}

json::object LlamaWriter::timings() const {
  const auto per_second = [](int64_t n, double ms) {
    return ms > 0 ? 1000 * static_cast<double>(n) / ms : 0.0;
  };
  const auto per_token = [](int64_t n, double ms) {
    return n > 0 ? ms / static_cast<double>(n) : 0.0;
  };
  const int64_t n = head_.num_prompt_tokens;
  return {{"prompt_n", n},
          {"prompt_ms", prompt_ms_},
          {"prompt_per_token_ms", per_token(n, prompt_ms_)},
          {"prompt_per_second", per_second(n, prompt_ms_)},
          {"predicted_n", num_tokens_},
          {"predicted_ms", decode_ms_},
          {"predicted_per_token_ms", per_token(num_tokens_, decode_ms_)},
          {"predicted_per_second", per_second(num_tokens_, decode_ms_)}};
}

void LlamaWriter::finish(std::string& out) {
  const std::string body =
      json::serialize(json::object{{"index", 0},
                                   {"content", content_},
                                   {"tokens", std::move(tokens_)},
                                   {"id_slot", -1},
                                   {"stop", true},
                                   {"model", head_.model},
                                   {"tokens_predicted", num_tokens_},
                                   {"tokens_evaluated", head_.num_prompt_tokens},
                                   {"generation_settings", head_.settings},
                                   {"prompt", head_.prompt},
                                   {"has_new_line", has_new_line_},
                                   {"truncated", false},
                                   {"stop_type", stop_type_},
                                   {"stopping_word", stopping_word_},
                                   {"tokens_cached", head_.num_prompt_tokens + num_tokens_},
                                   {"timings", timings()}});
  out += head_.streams ? sse_event(body) : body;
}

void LlamaWriter::break_off(const ApiError& error, std::string& out) {
  out += sse_event(error_body(error));
}

}  // namespace quire::server
